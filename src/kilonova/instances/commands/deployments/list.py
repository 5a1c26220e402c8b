"""`kilonova instances list`: the instances of models in a cluster."""

from typing import Annotated

import typer

from kilonova.component.command.flags import (
    AllNamespaces,
    Context,
    Data,
    Kubeconfig,
    Namespace,
    Output,
    Selector,
)
from kilonova.instances.commands.name_completion import complete_deployments


def list_instances(
    deployments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DEPLOYMENT]...",
            help="Deployments; all instances without one.",
            autocompletion=complete_deployments,
        ),
    ] = None,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """List instances, with their agents and domains.

    \b
    Examples:
      kilonova instances list
      kilonova instances list llama
      kilonova instances list -A -o json
    """
    from kilonova.component.command.cluster_selection import resolve_kubeconfig, resolve_namespace
    from kilonova.instances.commands.cluster_reading import read_instances
    from kilonova.instances.commands.deployments.summaries import print_instances

    resolved = resolve_kubeconfig(kubeconfig, context, data)
    space = None if all_namespaces else resolve_namespace(namespace, resolved, context)
    found = read_instances(resolved, context, space, selector, deployments or ())
    print_instances(found, output)
