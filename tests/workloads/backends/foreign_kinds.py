"""CRDs of other schedulers, without the schedulers."""

from typing import Any

from kilonova.kube import Client, NotFound, Resource, unstructured_resource
from tests.local.embedded_cluster import DEFINITIONS, wait_for_condition
from tests.workloads.manifests.load import load_manifest

KAI_POD_GROUPS = unstructured_resource(
    "scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup", True
)
KAI_TOPOLOGIES = unstructured_resource("kai.scheduler", "v1alpha1", "topologies", "Topology", False)
VOLCANO_POD_GROUPS = unstructured_resource(
    "scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", True
)
VOLCANO_QUEUES = unstructured_resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", False)
_FILES = {
    KAI_POD_GROUPS: "kai-podgroups",
    KAI_TOPOLOGIES: "kai-topologies",
    VOLCANO_POD_GROUPS: "volcano-podgroups",
    VOLCANO_QUEUES: "volcano-queues",
}


def load_definition(resource: Resource[Any]) -> Any:
    """Its CustomResourceDefinition."""
    (found,) = load_manifest(f"definitions/{_FILES[resource]}")
    return found


async def install_foreign_kinds(client: Client, *resources: Resource[Any]) -> None:
    """Create CRDs and wait until they are served."""
    for each in resources:
        body = load_definition(each)
        await client.apply(DEFINITIONS, body["metadata"]["name"], body, field_manager="installer")
    for each in resources:
        await wait_for_condition(lambda each=each: is_served(client, each), within=30)


async def uninstall_foreign_kinds(client: Client, *resources: Resource[Any]) -> None:
    """Delete CRDs with all objects, and wait until they are no longer served."""
    for each in resources:
        try:
            await client.delete(DEFINITIONS, load_definition(each)["metadata"]["name"])
        except NotFound:
            continue

    for each in resources:

        async def gone(each: Resource[Any] = each) -> bool:
            return not await is_served(client, each)

        await wait_for_condition(gone, within=30)


async def is_served(client: Client, resource: Resource[Any]) -> bool:
    """Whether the server knows a kind."""
    try:
        await client.list(resource)
    except NotFound:
        return False
    return True
