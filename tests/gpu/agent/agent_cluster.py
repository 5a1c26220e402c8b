"""An embedded cluster with scheduler and GPU agents, in virtual time."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kilonova.api.gpu.annotations import TOPOLOGY, Topology, parse_topology
from kilonova.cli.up.components.assembly import assemble_cluster
from kilonova.kube import Client
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster
from kilonova.local.simnodes import Fleet
from kilonova.local.simnodes.fleet.model import GpuSpec, NodeGroup
from tests.local.embedded_cluster import NODES, PODS, LoopClock, find, wait_for_condition

H100 = GpuSpec("NVIDIA-H100-80GB-HBM3", 8, "80Gi")
A100 = GpuSpec("NVIDIA-A100-SXM4-40GB", 8, "40Gi")


def gpu_fleet(gpu: GpuSpec = H100, count: int = 1) -> Fleet:
    """Nodes of one kind: `gpu-0`, …"""
    group = NodeGroup(
        "gpu", count=count, cpu="64", memory="512Gi", gpu=gpu, start="0.1s", stop="0s"
    )
    return Fleet(nodes=(group,))


@asynccontextmanager
async def run_gpu_cluster(
    fleet: Fleet | None = None,
    *,
    data: Path | None = None,
    components: Sequence[str] = ("scheduler", "gpu"),
) -> AsyncGenerator[tuple[EmbeddedCluster, Client]]:
    """A cluster from start to stop, and a client of it."""
    settings = ClusterSettings(port=None, data=data, fleet=fleet or gpu_fleet())
    cluster = assemble_cluster(components, settings, LoopClock()).cluster
    await cluster.start()
    try:
        await cluster.wait_nodes_registered()
        yield cluster, cluster.client("system:admin")
    finally:
        await cluster.stop()


def gpu_pod(name: str, *, node: str = "", **more: Any) -> Any:
    """A pod with resource requests such as `{"nvidia.com/gpu": 1}` as `requests`."""
    requests = more.pop("requests", {"nvidia.com/gpu": "1"})
    container = {
        "name": "main",
        "image": "img",
        "resources": {"limits": requests, "requests": requests},
    }
    spec: Any = {"containers": [container], **more.pop("spec", {})}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, **more}, "spec": spec}


async def read_topology(client: Client, node: str) -> Topology:
    """What a node publishes."""
    found = await client.get(NODES, node)
    topology = parse_topology(found["metadata"]["annotations"][TOPOLOGY])
    assert isinstance(topology, Topology)
    return topology


async def list_instances(client: Client, node: str) -> dict[int, list[tuple[str, int]]]:
    """Profile and start of the MIG instances of a node, by GPU."""
    topology = await read_topology(client, node)
    return {
        index: [(each.profile, each.start) for each in gpu.instances]
        for index, gpu in enumerate(topology.gpus)
        if gpu.instances
    }


async def find_condition_of(client: Client, node: str, type_: str) -> Any:
    """A condition of a Node; None if it has none."""
    found = await client.get(NODES, node)
    conditions = found["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == type_), None)


async def wait_for_phase(client: Client, pod: str, phase: str, within: float = 60.0) -> None:
    async def reached() -> bool:
        found = await find(client, PODS, pod)
        return found is not None and found.get("status", {}).get("phase") == phase

    await wait_for_condition(reached, within=within)
