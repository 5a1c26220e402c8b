"""`kilonova install`: the CRDs on a Kubernetes cluster."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from kilonova.cli.commands.name_completion import complete_installable_components


def install(
    kubeconfig: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Kubeconfig of the cluster.  [default: KUBECONFIG, else ~/.kube/config]",
            dir_okay=False,
        ),
    ] = None,
    context: Annotated[
        str | None, typer.Option(metavar="NAME", help="Context, instead of the current one.")
    ] = None,
    components: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Only the CRDs that these components need, separated by commas.  [default: all]",
            autocompletion=complete_installable_components,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Server-side dry run: only print what would change.")
    ] = False,
    output: Annotated[
        Literal["yaml", "json"] | None,
        typer.Option("--output", "-o", help="Print the CRDs instead; needs no cluster."),
    ] = None,
) -> None:
    """Install Kilonova's CRDs on a Kubernetes cluster.

    They are applied by server-side apply with field manager 'kilonova', and are served when the
    command returns. Installing again changes nothing. A cluster of `kilonova up` has them already.

    \b
    Examples:
      kilonova install
      kilonova install --dry-run --context staging
      kilonova install --kubeconfig ~/.kube/lab
      kilonova install --components scheduler
      kilonova install -o yaml > definitions.yaml
    """
    from kilonova.cli.install import format_definitions, install_on_cluster, select_definitions

    definitions = select_definitions(components)
    if output is not None:
        typer.echo(format_definitions(definitions, output))
        return
    for each in install_on_cluster(definitions, kubeconfig, context, dry_run=dry_run):
        typer.echo(f"{each.name} {each.outcome}{' (dry run)' if dry_run else ''}")
