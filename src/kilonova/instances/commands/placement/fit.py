"""`kilonova fit`, also `kubectl fit`: the accelerators of a cluster as a picture."""

from typing import Annotated, Literal

import typer

from kilonova.component.command.flags import (
    Config,
    Context,
    Data,
    Kubeconfig,
    Namespace,
    Output,
    Snapshot,
)
from kilonova.instances.commands.builds.source import Builds, complete_builds
from kilonova.instances.commands.placement.domain_completion import (
    complete_domains,
    complete_levels,
)
from kilonova.instances.commands.placement.strategies import Strategy

ColourMode = Literal["auto", "always", "never"]


def fit(
    domains: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DOMAIN",
            help="Show only these domains: rack-2, zone-a/block-1.",
            autocompletion=complete_domains,
        ),
    ] = None,
    build: Annotated[
        str,
        typer.Option(
            metavar="ID",
            help="Show where the next instance of a build would be placed, and how many fit.",
            autocompletion=complete_builds,
        ),
    ] = "",
    builds: Builds = None,
    strategy: Strategy = "tightest",
    limit: Annotated[
        int, typer.Option(min=1, max=10_000, help="Look for at most so many copies.")
    ] = 100,
    resource: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The accelerators to show.  [default: those of the build, else nvidia.com/gpu]",
        ),
    ] = "",
    level: Annotated[
        str,
        typer.Option(
            metavar="LEVEL",
            help="The finest level to draw: node, or a level such as rack or zone.  [default: the "
            "finest that is not too long]",
            autocompletion=complete_levels,
        ),
    ] = "",
    topology_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Node label that is a level of the topology, broadest first; may be repeated.  "
            "[default: those of zones, blocks and racks]",
        ),
    ] = None,
    width: Annotated[
        int, typer.Option(min=0, metavar="N", help="Columns; 0 is the width of the terminal.")
    ] = 0,
    color: Annotated[ColourMode, typer.Option(help="Colours: by default, on terminals.")] = "auto",
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
    snapshot: Snapshot = None,
    config: Config = None,
    output: Output = "table",
) -> None:
    """Show where accelerators are, and who holds them.

    Zones and blocks are headings, racks are tiles with their nodes, and each character is an
    accelerator: a letter for the instance or other workload that holds it, a mark for one that is
    free, unhealthy, or on a node that is cordoned or not ready. Equal nodes are one line, and large
    clusters are shown by rack.

    With --build, it marks where the next instance of the build would be placed, and says how many
    more there is capacity for, or exactly why there is none. Nothing is written.

    \b
    Examples:
      kilonova fit
      kilonova fit zone-a --level node
      kilonova fit --build llama32-90b-v7 --builds s3://models/builds
      kilonova fit --context production --resource example.com/npu --width 200
      kilonova fit --snapshot monday.json.gz -o json
    """
    import sys

    from kilonova.component.command.output.formats import encode_as
    from kilonova.instances.commands.placement.allocations import ClusterSource
    from kilonova.instances.commands.placement.fit_report import FitRequest, report_fit
    from kilonova.instances.commands.placement.terminal import find_terminal

    request = FitRequest(
        domains=tuple(domains or ()),
        build=build,
        builds=builds,
        strategy=strategy,
        limit=limit,
        resource=resource,
        levels=tuple(topology_key or ()),
        source=ClusterSource(snapshot, kubeconfig, context, data, config, namespace),
    )
    terminal = find_terminal(sys.stdout, width, color)
    report = report_fit(request)
    for warning in report.warnings:
        typer.echo(f"kilonova: {warning}", err=True)
    if output != "table":
        typer.echo(encode_as(report.to_document(), output))
        return
    typer.echo("\n".join(report.draw(terminal, level)), color=terminal.coloured)
