"""`kilonova instances history`: the revisions of a deployment."""

from typing import Annotated

import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig, Namespace, Output
from kilonova.instances.commands.name_completion import complete_deployments


def history(
    name: Annotated[
        str,
        typer.Argument(metavar="DEPLOYMENT", help="Its name.", autocompletion=complete_deployments),
    ],
    namespace: Namespace = None,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """List the revisions of a deployment.

    It can be rolled back to each of them; the newest comes first.

    \b
    Examples:
      kilonova instances history llama
      kilonova instances history llama -o json
    """
    from kilonova.component.command.cluster_selection import resolve_kubeconfig, resolve_namespace
    from kilonova.instances.commands.cluster_reading import read_deployment
    from kilonova.instances.commands.deployments.summaries import print_history

    resolved = resolve_kubeconfig(kubeconfig, context, data)
    space = resolve_namespace(namespace, resolved, context)
    print_history(read_deployment(resolved, context, space, name), output)
