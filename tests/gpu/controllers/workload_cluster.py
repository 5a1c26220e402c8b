"""An embedded cluster with GPU nodes, a scheduler and the controllers, in virtual time."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from kilonova.api.crds import load_definitions
from kilonova.gpu.controllers import build_gpu_controllers
from kilonova.kube import Client, Manager, NotFound, Resource, unstructured_resource
from kilonova.local.apiserver.bootstrap import install_crds
from kilonova.local.cluster import EmbeddedCluster
from kilonova.local.simnodes.fleet.model import Fleet, GpuSpec, NodeGroup
from tests.gpu.controllers.manifests import workload
from tests.local.embedded_cluster import LoopClock, run_cluster, wait_for_condition

WORKLOADS = unstructured_resource("kgwe.nvidia.io", "v1", "gpuworkloads", "GPUWorkload", True)
STRATEGIES = unstructured_resource("kgwe.nvidia.io", "v1", "migstrategies", "MIGStrategy", False)
GANGS = unstructured_resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)
PODS = unstructured_resource("", "v1", "pods", "Pod", True)
NODES = unstructured_resource("", "v1", "nodes", "Node", False)
SERVICES = unstructured_resource("", "v1", "services", "Service", True)
EVENTS = unstructured_resource("", "v1", "events", "Event", True)
PRIORITY_CLASSES = unstructured_resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False
)
NAMESPACE = "default"

H100 = GpuSpec("NVIDIA-H100-80GB-HBM3", 8, "80Gi")


def gpu_nodes(count: int = 2, gpu: GpuSpec = H100, name: str = "node", **fields: Any) -> NodeGroup:
    """Equal nodes: node-0, node-1, …"""
    times: Any = {"start": "100ms", "stop": "100ms", **fields}
    return NodeGroup(name, count, cpu="64", memory="512Gi", gpu=gpu, **times)


@dataclass(frozen=True, slots=True)
class GpuCluster:
    """A cluster and a user's client."""

    cluster: EmbeddedCluster
    client: Client

    async def create(self, name: str = "job", *, gpus: int = 8, changes: Any = None) -> Any:
        """Create a workload; `changes` are by path, as in `workload`."""
        body = workload(name, gpus=gpus, changes=changes)
        return await self.client.create(WORKLOADS, body, NAMESPACE)

    async def get(self, resource: Resource[Any], name: str) -> Any:
        """An object, or None."""
        try:
            return await self.client.get(resource, name, NAMESPACE if resource.namespaced else None)
        except NotFound:
            return None

    async def list_objects(self, resource: Resource[Any]) -> list[Any]:
        """All objects of a kind, by name."""
        found = await self.client.list(resource, NAMESPACE if resource.namespaced else None)
        return sorted(found.items, key=lambda each: each["metadata"]["name"])

    async def list_names(self, resource: Resource[Any]) -> list[str]:
        """The names of all objects of a kind."""
        return [each["metadata"]["name"] for each in await self.list_objects(resource)]

    async def get_status(self, name: str = "job") -> Any:
        """The status of a workload."""
        return (await self.client.get(WORKLOADS, name, NAMESPACE)).get("status", {})

    async def wait_for(
        self, condition: Callable[[Any], bool], name: str = "job", within: float = 60.0
    ) -> Any:
        """Wait until a condition holds for a workload's status; returns the status."""
        status: Any = {}

        async def holds() -> bool:
            nonlocal status
            status = await self.get_status(name)
            return condition(status)

        try:
            await wait_for_condition(holds, within=within)
        except AssertionError:
            raise AssertionError(f"status of {name}: {status}") from None
        return status

    async def wait_for_phase(self, phase: str, name: str = "job", within: float = 60.0) -> Any:
        """Wait for a phase; returns the status."""
        return await self.wait_for(lambda each: each.get("phase") == phase, name, within)

    async def list_event_reasons(self, name: str = "job") -> list[str]:
        """The reasons of the events of a workload, in the order of their first occurrence."""
        found = await self.list_objects(EVENTS)
        own = [each for each in found if each["involvedObject"]["name"] == name]
        own.sort(key=lambda each: each["firstTimestamp"])
        return [each["reason"] for each in own if each["involvedObject"]["kind"] == "GPUWorkload"]


def condition_of(status: Any, type_: str) -> Any:
    """A condition of a status; an empty one if there is none."""
    return next((each for each in status.get("conditions", []) if each["type"] == type_), {})


@asynccontextmanager
async def gpu_cluster(*groups: NodeGroup, controllers: bool = True) -> AsyncGenerator[GpuCluster]:
    """A cluster from start to stop, with the controllers unless told otherwise."""
    fleet = Fleet(groups or (gpu_nodes(),))
    async with run_cluster(fleet=fleet, scheduler=True) as cluster:
        client = cluster.client("user")
        await install_crds(client, load_definitions())
        for each in (WORKLOADS, STRATEGIES, GANGS):
            await wait_for_condition(lambda each=each: _is_served(client, each))
        found = GpuCluster(cluster, client)
        if not controllers:
            yield found
            return
        async with running_controllers(cluster):
            yield found


@asynccontextmanager
async def running_controllers(cluster: EmbeddedCluster) -> AsyncGenerator[None]:
    """The controllers from start to stop."""
    clock = LoopClock()
    built = build_gpu_controllers(cluster.client("gpu"), now=clock.now, monotonic=clock.monotonic)
    manager = Manager()
    manager.add(*built.runnables)
    manager.add_leader_runnables(*built.leader_runnables)
    task = asyncio.create_task(manager.run(signals=False))
    try:
        yield
    finally:
        manager.stop()
        await task


async def _is_served(client: Client, resource: Resource[Any]) -> bool:
    try:
        await client.list(resource, NAMESPACE if resource.namespaced else None)
    except NotFound:
        return False
    return True
