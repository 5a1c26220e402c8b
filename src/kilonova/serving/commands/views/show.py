"""`kilonova serve show`: one service, with its servers and how it is called."""

from kilonova.component.command.flags import Context, Data, Kubeconfig, Namespace, Output
from kilonova.serving.commands.flags import ServiceName


def show(
    name: ServiceName,
    namespace: Namespace = None,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Show a service: groups, pods, models, addresses, and how it is called.

    \b
    Examples:
      kilonova serve show chat
      kilonova serve show chat -o yaml
    """
    import typer

    from kilonova.api.serving import InferenceService
    from kilonova.component.command.output.formats import encode_as
    from kilonova.kube import Client
    from kilonova.serving.commands.cluster_access import ServiceCluster, get_service, list_pods
    from kilonova.serving.commands.views.details import format_details
    from kilonova.serving.resources import Pod

    cluster = ServiceCluster(kubeconfig, context, data, namespace)

    async def read(client: Client) -> tuple[InferenceService, list[Pod]]:
        service = await get_service(client, name, cluster.namespace)
        return service, await list_pods(client, name, cluster.namespace)

    service, pods = cluster.run(read)
    typer.echo(format_details(service, pods) if output == "table" else encode_as(service, output))
