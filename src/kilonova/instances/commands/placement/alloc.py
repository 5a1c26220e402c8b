"""`kilonova alloc`, also `alloc`: where the agents of a build would be placed."""

from pathlib import Path
from typing import Annotated

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
from kilonova.instances.commands.placement.strategies import Strategy


def alloc(
    build: Annotated[
        str,
        typer.Option(metavar="ID", help="The build.", autocompletion=complete_builds),
    ],
    builds: Builds = None,
    strategy: Strategy = "tightest",
    copies: Annotated[int, typer.Option(min=1, max=10_000, help="How many instances.")] = 1,
    save_to: Annotated[
        Path | None,
        typer.Option(
            "--save-build-output-path",
            metavar="DIR",
            help="Save the build, the snapshot and the answer here, for tests.",
            file_okay=False,
        ),
    ] = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
    snapshot: Snapshot = None,
    config: Config = None,
    output: Output = "table",
) -> None:
    """Allocate instances of a build, without creating them.

    The scheduler's own decision is computed on the cluster as it is, or offline on a snapshot of
    one, after all gangs that are pending: for each agent its node, devices and domain. The exit
    code is 1 if not all instances fit, with the reason. Nothing is written to the cluster.

    \b
    Examples:
      kilonova alloc --build llama32-90b-v7 --builds ./builds
      kilonova alloc --build llama32-90b-v7 --snapshot monday.json.gz --copies 3
      kilonova alloc --build llama32-90b-v7 --strategy spread -o json
      kilonova alloc --build llama32-90b-v7 --save-build-output-path tests/data
    """
    from kilonova.artifacts.builds import BuildError
    from kilonova.component.command.output.formats import encode_as, pluralize
    from kilonova.component.failure import CommandFailed
    from kilonova.instances.alloc.allocation_text import format_allocation
    from kilonova.instances.alloc.saved_allocation import save_allocation
    from kilonova.instances.commands.builds.source import load_build
    from kilonova.instances.commands.placement.allocations import ClusterSource, allocate_build

    loaded = load_build(build, builds)
    source = ClusterSource(snapshot, kubeconfig, context, data, config, namespace)
    cluster_snapshot = source.load_snapshot()
    allocation = allocate_build(loaded, strategy, source.find_namespace(), cluster_snapshot, copies)
    text = format_allocation(allocation) if output == "table" else encode_as(allocation, output)
    if text:
        typer.echo(text)
    if save_to is not None:
        try:
            saved = save_allocation(allocation, cluster_snapshot, save_to.expanduser())
        except BuildError as error:
            raise CommandFailed(str(error)) from error
        except OSError as error:
            raise CommandFailed(f"{save_to} cannot be written: {error.strerror}") from error
        typer.echo(f"saved {', '.join(map(str, saved))}", err=True)
    unplaced = allocation.copies.unplaced
    if unplaced is not None:
        fitting = f"{allocation.copies.count} of {pluralize(copies, 'instance')} fit"
        raise CommandFailed(f"{fitting}: {unplaced.reason}: {unplaced.message}")
