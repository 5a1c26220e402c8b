"""`kilonova serve scale`, `pause`, `resume` and `delete`."""

from typing import Annotated

import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig, Namespace
from kilonova.serving.commands.flags import DryRun, ServiceName


def scale(
    name: ServiceName,
    number: Annotated[int, typer.Argument(metavar="N", min=0, help="How many servers.")],
    group: Annotated[
        str, typer.Option(metavar="GROUP", help="The group of servers.  [default: the only one]")
    ] = "",
    dry_run: DryRun = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Set the number of servers of a group.

    With autoscaling it is the minimum that is set: the load may want more.

    \b
    Examples:
      kilonova serve scale chat 3
      kilonova serve scale chat 0 --group llm
    """
    from kilonova.kube import Client, PatchType
    from kilonova.serving.commands.cluster_access import ServiceCluster, get_service
    from kilonova.serving.commands.scaling_change import plan_scaling
    from kilonova.serving.resources import INFERENCE_SERVICES

    cluster = ServiceCluster(kubeconfig, context, data, namespace)

    async def change(client: Client) -> str:
        service = await get_service(client, name, cluster.namespace)
        plan = plan_scaling(service, group, number)
        await client.patch(
            INFERENCE_SERVICES,
            name,
            plan.patch,
            cluster.namespace,
            patch_type=PatchType.JSON,
            dry_run=dry_run,
        )
        return plan.message

    _tell(cluster.run(change), dry_run)


def pause(
    name: ServiceName,
    dry_run: DryRun = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Keep the number of servers as it is, whatever the load is.

    \b
    Example:
      kilonova serve pause chat
    """
    from kilonova.serving.commands.cluster_access import ServiceCluster

    cluster = ServiceCluster(kubeconfig, context, data, namespace)
    cluster.change(name, {"paused": True}, dry_run=dry_run)
    _tell(f"{cluster.namespace}/{name} paused", dry_run)


def resume(
    name: ServiceName,
    dry_run: DryRun = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Let the number of servers follow the load again.

    \b
    Example:
      kilonova serve resume chat
    """
    from kilonova.serving.commands.cluster_access import ServiceCluster

    cluster = ServiceCluster(kubeconfig, context, data, namespace)
    cluster.change(name, {"paused": False}, dry_run=dry_run)
    _tell(f"{cluster.namespace}/{name} resumed", dry_run)


def delete(
    name: ServiceName,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be deleted.")
    ] = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Delete a service with its gateways and servers, which finish their requests.

    API keys, claims with models, and what else is only referred to stay.

    \b
    Examples:
      kilonova serve delete chat --dry-run
      kilonova serve delete chat
    """
    from kilonova.api.serving import InferenceService
    from kilonova.kube import Client
    from kilonova.serving.commands.cluster_access import ServiceCluster, get_service, list_pods
    from kilonova.serving.resources import INFERENCE_SERVICES, Pod

    cluster = ServiceCluster(kubeconfig, context, data, namespace)

    async def remove(client: Client) -> tuple[InferenceService, list[Pod]]:
        service = await get_service(client, name, cluster.namespace)
        pods = await list_pods(client, name, cluster.namespace)
        await client.delete(
            INFERENCE_SERVICES,
            name,
            cluster.namespace,
            uid=service.metadata.uid,
            dry_run=dry_run,
        )
        return service, pods

    _, pods = cluster.run(remove)
    _tell(f"{cluster.namespace}/{name} deleted, with {len(pods)} pods", dry_run)


def _tell(message: str, dry_run: bool) -> None:
    typer.echo(f"{message}{' (dry run)' if dry_run else ''}")
