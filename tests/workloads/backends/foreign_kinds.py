"""The kinds that other schedulers bring along, without the schedulers."""

from typing import Any

from kilonova.kube import Client, NotFound, Resource, plain
from tests.local.embedded_cluster import DEFINITIONS, eventually
from tests.workloads.manifests.load import manifest

KAI_GROUPS = plain("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup", True)
KAI_TOPOLOGIES = plain("kai.scheduler", "v1alpha1", "topologies", "Topology", False)
VOLCANO_GROUPS = plain("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", True)
VOLCANO_QUEUES = plain("scheduling.volcano.sh", "v1beta1", "queues", "Queue", False)
_FILES = {
    KAI_GROUPS: "kai-podgroups",
    KAI_TOPOLOGIES: "kai-topologies",
    VOLCANO_GROUPS: "volcano-podgroups",
    VOLCANO_QUEUES: "volcano-queues",
}


def definition_of(resource: Resource[Any]) -> Any:
    """Its CustomResourceDefinition."""
    (found,) = manifest(f"definitions/{_FILES[resource]}")
    return found


async def install(client: Client, *resources: Resource[Any]) -> None:
    """Define kinds, and wait until they are served."""
    for each in resources:
        body = definition_of(each)
        await client.apply(DEFINITIONS, body["metadata"]["name"], body, manager="installer")
    for each in resources:
        await eventually(lambda each=each: is_served(client, each), within=30)


async def uninstall(client: Client, *resources: Resource[Any]) -> None:
    """Remove kinds, with all objects, and wait until they are served no more."""
    for each in resources:
        try:
            await client.delete(DEFINITIONS, definition_of(each)["metadata"]["name"])
        except NotFound:
            continue

    for each in resources:

        async def gone(each: Resource[Any] = each) -> bool:
            return not await is_served(client, each)

        await eventually(gone, within=30)


async def is_served(client: Client, resource: Resource[Any]) -> bool:
    """Whether the server knows a kind."""
    try:
        await client.list(resource)
    except NotFound:
        return False
    return True
