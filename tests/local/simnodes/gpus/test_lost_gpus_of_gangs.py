"""A gang whose GPUs are lost is unhealthy, reports why, and is migrated."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.cli.up.components.assembly import assemble_cluster
from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.cluster import ClusterSettings
from kilonova.local.simnodes import Fleet
from kilonova.local.simnodes.fleet.model import GpuSpec, NodeGroup
from tests.local.embedded_cluster import (
    NODES,
    PODS,
    LoopClock,
    advance_time,
    virtual_time,
    wait_for_condition,
)

pytestmark = virtual_time

SETS = unstructured_resource("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
CLIQUES = unstructured_resource("grove.io", "v1alpha1", "podcliques", "PodClique", True)
GANGS = unstructured_resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)
ALL = ",".join(map(str, range(8)))


@asynccontextmanager
async def gpu_cluster(nodes: int) -> AsyncGenerator[Client]:
    gpu = GpuSpec("NVIDIA-H100-80GB-HBM3", 8)
    fleet = Fleet(nodes=(NodeGroup("n", nodes, gpu=gpu, start="1s", stop="1s"),))
    settings = ClusterSettings(port=None, fleet=fleet)
    cluster = assemble_cluster(("operator", "scheduler"), settings, LoopClock()).cluster
    await cluster.start()
    try:
        await cluster.wait_nodes_registered()
        yield cluster.client("test")
    finally:
        await cluster.stop()


def training() -> Any:
    """Two pods with eight GPUs each, both required."""
    container = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    spec = {"roleName": "worker", "replicas": 2, "podSpec": {"containers": [container]}}
    return {
        "metadata": {"name": "train"},
        "spec": {"replicas": 1, "template": {"cliques": [{"name": "worker", "spec": spec}]}},
    }


async def started(client: Client) -> Any:
    """Start the set; returns one of its pods."""
    await client.create(SETS, training(), "default")

    async def runs() -> bool:
        return len(await ready_pods(client)) == 2

    await wait_for_condition(runs)
    return (await client.list(PODS, "default")).items[0]


async def ready_pods(client: Client) -> list[Any]:
    def is_ready(pod: Any) -> bool:
        found = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
        return found.get("Ready") == "True"

    return [each for each in (await client.list(PODS, "default")).items if is_ready(each)]


async def lose_all_gpus(client: Client, node: str) -> None:
    body = {"metadata": {"annotations": {"sim.kilonova.dev/lost-gpus": ALL}}}
    await client.patch(NODES, node, body)


async def condition(client: Client, resource: Any, name: str, type_: str) -> Any:
    found = (await client.get(resource, name, "default"))["status"]["conditions"]
    return next(each for each in found if each["type"] == type_)


async def test_gang_is_unhealthy_while_its_pod_has_lost_gpus() -> None:
    async with gpu_cluster(nodes=2) as client:
        victim = await started(client)
        name, node = victim["metadata"]["name"], victim["spec"]["nodeName"]
        await lose_all_gpus(client, node)
        problem = f"pod {name}: unhealthy devices of nvidia.com/gpu: {ALL.replace(',', ', ')}"

        async def says_why() -> bool:
            found = await condition(client, GANGS, "train-0", "Unhealthy")
            return found["status"] == "True" and problem in found["message"]

        await wait_for_condition(says_why, within=9)
        breached = await condition(client, CLIQUES, "train-0-worker", "MinAvailableBreached")
        assert breached["status"] == "True"
        assert problem in breached["message"]
        # There is no other node: the condition stays for as long as the GPUs are missing.
        await advance_time(300)
        assert len(await ready_pods(client)) == 1
        found = await condition(client, GANGS, "train-0", "Unhealthy")
        assert found["status"] == "True"
        assert problem in found["message"]
        await client.patch(
            NODES, node, {"metadata": {"annotations": {"sim.kilonova.dev/lost-gpus": None}}}
        )

        async def is_well() -> bool:
            found = await condition(client, GANGS, "train-0", "Unhealthy")
            return found["status"] == "False" and len(await ready_pods(client)) == 2

        await wait_for_condition(is_well, within=120)


async def test_pod_is_replaced_on_a_node_with_gpus() -> None:
    async with gpu_cluster(nodes=3) as client:
        victim = await started(client)
        node = victim["spec"]["nodeName"]
        await lose_all_gpus(client, node)

        async def is_moved() -> bool:
            pods = await ready_pods(client)
            return len(pods) == 2 and node not in {each["spec"]["nodeName"] for each in pods}

        await wait_for_condition(is_moved, within=60)
        pods = (await client.list(PODS, "default")).items
        assert victim["metadata"]["uid"] not in {each["metadata"]["uid"] for each in pods}
