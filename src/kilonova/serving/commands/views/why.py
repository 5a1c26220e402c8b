"""`kilonova serve why`: why a service has as many servers as it has, and what it waits for."""

from kilonova.component.command.flags import Context, Data, Kubeconfig, Namespace, Output
from kilonova.serving.commands.flags import ServiceName


def why(
    name: ServiceName,
    namespace: Namespace = None,
    output: Output = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Explain the number of servers, and what a service waits for.

    The last decision of the autoscaler with its figures, conditions that are not true, and why pods
    are not ready: those that cannot be scheduled, images, probes.

    \b
    Examples:
      kilonova serve why chat
      kilonova serve why chat -n cms -o json
    """
    from datetime import UTC, datetime

    import typer

    from kilonova.component.command.output.formats import encode_as
    from kilonova.kube import Client
    from kilonova.serving.commands.cluster_access import ServiceCluster, get_service, list_pods
    from kilonova.serving.commands.views.explanation import (
        ServiceExplanation,
        explain_service,
        format_explanation,
    )

    cluster = ServiceCluster(kubeconfig, context, data, namespace)

    async def read(client: Client) -> ServiceExplanation:
        service = await get_service(client, name, cluster.namespace)
        return explain_service(service, await list_pods(client, name, cluster.namespace), now)

    now = datetime.now(UTC)
    found = cluster.run(read)
    if output == "table":
        typer.echo(format_explanation(found, now))
    else:
        typer.echo(encode_as(found, output))
