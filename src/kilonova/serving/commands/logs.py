"""`kilonova serve logs`: what gateways and servers print."""

from typing import Annotated

import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig, Namespace
from kilonova.serving.commands.flags import ServiceName


def logs(
    name: ServiceName,
    group: Annotated[
        str, typer.Option(metavar="GROUP", help="Of the servers of this group alone.")
    ] = "",
    gateway: Annotated[bool, typer.Option("--gateway", help="Of the gateways alone.")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-F", help="Go on with what is printed from now on.")
    ] = False,
    tail: Annotated[
        int, typer.Option(metavar="N", min=0, help="The last lines of each pod.")
    ] = 100,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Print the logs of the gateways and servers of a service.

    Each line begins with the name of its pod. Requests are in the gateway's log if the service sets
    gateway.accessLog.

    \b
    Examples:
      kilonova serve logs chat
      kilonova serve logs chat --gateway --follow
      kilonova serve logs chat --group llm --tail 20
    """
    from kilonova.component.failure import CommandFailed, WrongUsage
    from kilonova.kube import Client
    from kilonova.serving.commands.cluster_access import ServiceCluster, get_service, list_pods
    from kilonova.serving.commands.pod_logs import print_logs, select_pods

    if group and gateway:
        raise WrongUsage("--group and --gateway exclude each other")
    cluster = ServiceCluster(kubeconfig, context, data, namespace)

    async def read(client: Client) -> None:
        service = await get_service(client, name, cluster.namespace)
        pods = select_pods(await list_pods(client, name, cluster.namespace), group, gateway)
        if not pods:
            known = ", ".join(each.name for each in service.spec.servers)
            raise CommandFailed(f"there is no such pod now; groups of {name}: {known}")
        await print_logs(client, pods, typer.echo, follow=follow, tail=tail)

    cluster.run(read)
