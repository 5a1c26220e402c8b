"""`kilonova instances rollback`: a deployment goes back to a former release or revision."""

from typing import Annotated

import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig, Namespace
from kilonova.instances.commands.name_completion import complete_deployments


def rollback(
    name: Annotated[
        str,
        typer.Argument(metavar="DEPLOYMENT", help="Its name.", autocompletion=complete_deployments),
    ],
    to_release: Annotated[
        str | None, typer.Option(metavar="NAME", help="Go back to this release.")
    ] = None,
    to_revision: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Go back to this revision.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Let the cluster check the change, and print it."),
    ] = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Roll a deployment back to a former revision.

    By default to the newest one before the current. It is an ordinary update, within the bounds of
    the deployment's strategy; the revision gets a new number. `kubectl patch ied NAME --type merge
    -p '{"spec":{"release":"R"}}'` does the same for a deployment that is made from Releases.

    \b
    Examples:
      kilonova instances rollback llama
      kilonova instances rollback llama --to-release llama-2026-11
      kilonova instances rollback llama --to-revision 3 --dry-run
    """
    from kilonova.component.command.cluster_selection import resolve_kubeconfig, resolve_namespace
    from kilonova.component.failure import WrongUsage
    from kilonova.instances.commands.cluster_reading import roll_back
    from kilonova.instances.commands.deployments.rollback_plan import RollbackTarget

    if to_release is not None and to_revision is not None:
        raise WrongUsage("--to-release and --to-revision exclude each other")
    resolved = resolve_kubeconfig(kubeconfig, context, data)
    space = resolve_namespace(namespace, resolved, context)
    target = RollbackTarget(to_release, to_revision)
    for line in roll_back(resolved, context, space, name, target, dry_run=dry_run):
        typer.echo(line)
