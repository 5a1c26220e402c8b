"""`kilonova serve list`: the inference services of a cluster."""

from typing import Annotated

import typer

from kilonova.component.command.flags import (
    AllNamespaces,
    Context,
    Data,
    Kubeconfig,
    ListOutput,
    Namespace,
)
from kilonova.serving.commands.name_completion import complete_services


def list_services(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Services; all without one.",
            autocompletion=complete_services,
        ),
    ] = None,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    output: ListOutput = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """List inference services: servers, load, addresses.

    Idle services have no server: a request starts one.

    \b
    Examples:
      kilonova serve list
      kilonova serve list -A -o wide
      kilonova serve list chat -o json
    """
    from kilonova.serving.commands.cluster_access import ServiceCluster
    from kilonova.serving.commands.cluster_access import list_services as read_services
    from kilonova.serving.commands.views.summaries import print_services, require_services

    cluster = ServiceCluster(kubeconfig, context, data, namespace)
    space = None if all_namespaces else cluster.namespace
    found = cluster.run(lambda client: read_services(client, space))
    print_services(require_services(found, names or (), space), output)
