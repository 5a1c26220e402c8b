"""A gang whose GPUs are lost is unhealthy, says why, and is moved."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.cli.residents import Residents
from kilonova.kube import Client
from kilonova.kube.resource import plain
from kilonova.local.cluster import Settings
from kilonova.local.nodes import Fleet
from kilonova.local.nodes.fleet import Gpu, NodeGroup
from tests.local.embedded_cluster import NODES, PODS, LoopClock, eventually, settle, virtual_time

pytestmark = virtual_time

SETS = plain("grove.io", "v1alpha1", "podcliquesets", "PodCliqueSet", True)
CLIQUES = plain("grove.io", "v1alpha1", "podcliques", "PodClique", True)
GANGS = plain("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)
ALL = ",".join(map(str, range(8)))


@asynccontextmanager
async def gpu_cluster(nodes: int) -> AsyncGenerator[Client]:
    gpu = Gpu("NVIDIA-H100-80GB-HBM3", 8)
    fleet = Fleet(nodes=(NodeGroup("n", nodes, gpu=gpu, start="1s", stop="1s"),))
    cluster = Residents().cluster(Settings(port=None, fleet=fleet), LoopClock())
    await cluster.start()
    try:
        await cluster.wait_settled()
        yield cluster.client("test")
    finally:
        await cluster.stop()


def training() -> Any:
    """Two pods with eight GPUs each, of which both are needed."""
    container = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    spec = {"roleName": "worker", "replicas": 2, "podSpec": {"containers": [container]}}
    return {
        "metadata": {"name": "train"},
        "spec": {"replicas": 1, "template": {"cliques": [{"name": "worker", "spec": spec}]}},
    }


async def started(client: Client) -> Any:
    """Start the set; one of its pods."""
    await client.create(SETS, training(), "default")

    async def runs() -> bool:
        return len(await ready_pods(client)) == 2

    await eventually(runs)
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


async def test_the_gang_is_unhealthy_and_says_why_while_its_pod_has_no_gpus() -> None:
    async with gpu_cluster(nodes=2) as client:
        victim = await started(client)
        name, node = victim["metadata"]["name"], victim["spec"]["nodeName"]
        await lose_all_gpus(client, node)
        problem = f"pod {name}: unhealthy devices of nvidia.com/gpu: {ALL.replace(',', ', ')}"

        async def says_why() -> bool:
            found = await condition(client, GANGS, "train-0", "Unhealthy")
            return found["status"] == "True" and problem in found["message"]

        await eventually(says_why, within=9)
        breached = await condition(client, CLIQUES, "train-0-worker", "MinAvailableBreached")
        assert breached["status"] == "True"
        assert problem in breached["message"]
        # There is no other node: it stays so for as long as the GPUs are missing, and says so.
        await settle(300)
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

        await eventually(is_well, within=120)


async def test_its_pod_is_moved_to_a_node_that_has_gpus() -> None:
    async with gpu_cluster(nodes=3) as client:
        victim = await started(client)
        node = victim["spec"]["nodeName"]
        await lose_all_gpus(client, node)

        async def is_moved() -> bool:
            pods = await ready_pods(client)
            return len(pods) == 2 and node not in {each["spec"]["nodeName"] for each in pods}

        await eventually(is_moved, within=60)
        pods = (await client.list(PODS, "default")).items
        assert victim["metadata"]["uid"] not in {each["metadata"]["uid"] for each in pods}
