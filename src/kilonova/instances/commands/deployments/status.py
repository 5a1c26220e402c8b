"""`kilonova instances status`: the deployments of a cluster, and how far they are."""

from typing import Annotated

import typer

from kilonova.component.command.flags import (
    AllNamespaces,
    Context,
    Data,
    Kubeconfig,
    Namespace,
    Output,
)
from kilonova.instances.commands.name_completion import complete_deployments


def status(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DEPLOYMENT]...",
            help="Deployments; all without one.",
            autocompletion=complete_deployments,
        ),
    ] = None,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Show deployments, and what updates wait for.

    ADDITIONAL is how many more instances would fit now. STATE is Complete, Updating, Blocked if
    instances cannot be placed, Stuck after the progress deadline, Paused, or why a deployment
    cannot be rolled out.

    \b
    Examples:
      kilonova instances status
      kilonova instances status llama -n inference-engine
      kilonova instances status -A -o json
    """
    from kilonova.component.command.cluster_selection import resolve_kubeconfig, resolve_namespace
    from kilonova.instances.commands.cluster_reading import read_deployments
    from kilonova.instances.commands.deployments.summaries import print_deployments

    resolved = resolve_kubeconfig(kubeconfig, context, data)
    space = None if all_namespaces else resolve_namespace(namespace, resolved, context)
    print_deployments(read_deployments(resolved, context, space, names or ()), output)
