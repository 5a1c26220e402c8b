"""An embedded cluster with accelerators, a scheduler and the controllers, in virtual time."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from kilonova.api.crds import load_definitions
from kilonova.instances.assembly import build_instance_controllers
from kilonova.instances.settings import InstanceSettings
from kilonova.kube import Client, Manager, NotFound, Reflector, Resource, unstructured_resource
from kilonova.local.apiserver.bootstrap import install_crds
from kilonova.local.cluster import EmbeddedCluster
from kilonova.local.simnodes.fleet.model import Fleet, GpuSpec, NodeGroup
from tests.local.embedded_cluster import LoopClock, run_cluster, wait_for_condition

GROUP = "inference-engine.groq.io"
INSTANCES = unstructured_resource(
    GROUP, "v1", "inferenceengineinstances", "InferenceEngineInstance", True
)
GANGS = unstructured_resource("scheduler.grove.io", "v1alpha1", "podgangs", "PodGang", True)
RESERVATIONS = unstructured_resource(
    "scheduling.kilonova.dev", "v1alpha1", "reservations", "Reservation", True
)
PODS = unstructured_resource("", "v1", "pods", "Pod", True)
NODES = unstructured_resource("", "v1", "nodes", "Node", False)
SERVICES = unstructured_resource("", "v1", "services", "Service", True)
EVENTS = unstructured_resource("", "v1", "events", "Event", True)
NAMESPACE = "default"

ROLE = "supernova.groq.io/role"
INDEX = "supernova.groq.io/agent-index"


def accelerator_nodes(count: int = 4, *, racks: int = 2, name: str = "node", **fields: Any) -> Any:
    """Equal nodes of 8 accelerators: node-0, node-1, …"""
    times: Any = {"start": "100ms", "stop": "100ms", **fields}
    gpu = GpuSpec("NVIDIA-H100-80GB-HBM3", 8, "80Gi")
    return NodeGroup(name, count, cpu="64", gpu=gpu, blocks=1, racks=racks, **times)


def instance(name: str = "llama", *, agents: int = 4, gpus: int = 4, **spec: Any) -> Any:
    """An instance; four of its agents fill two nodes."""
    return {
        "metadata": {"name": name},
        "spec": {
            "model": "llama32-90b",
            "image": "engine",
            "targetAgents": agents,
            "accelerator": {"count": gpus},
            **spec,
        },
    }


@dataclass(frozen=True, slots=True)
class InstanceCluster:
    """A cluster and a user's client."""

    cluster: EmbeddedCluster
    client: Client

    async def create(self, name: str = "llama", **fields: Any) -> Any:
        """Create an instance."""
        return await self.client.create(INSTANCES, instance(name, **fields), NAMESPACE)

    async def list_objects(self, resource: Resource[Any]) -> list[Any]:
        """All objects of a kind, by name."""
        found = await self.client.list(resource, NAMESPACE if resource.namespaced else None)
        return sorted(found.items, key=lambda each: each["metadata"]["name"])

    async def list_names(self, resource: Resource[Any]) -> list[str]:
        """The names of all objects of a kind."""
        return [each["metadata"]["name"] for each in await self.list_objects(resource)]

    async def list_agents(self, name: str = "llama") -> dict[int, Any]:
        """The agent pods that are not being deleted, by index; of two, one with a node."""
        pods = [
            each
            for each in await self.list_objects(PODS)
            if each["metadata"]["labels"].get("supernova.groq.io/model-instance") == name
            and each["metadata"]["labels"][ROLE] == "agent"
            and "deletionTimestamp" not in each["metadata"]
        ]
        pods.sort(key=lambda each: "nodeName" in each["spec"])
        return {int(each["metadata"]["labels"][INDEX]): each for each in pods}

    @asynccontextmanager
    async def observed_phases(self) -> AsyncGenerator[list[tuple[str, int]]]:
        """Phases and numbers of ready agents of all instances, as they change."""
        seen: list[tuple[str, int]] = []
        reflector = Reflector(self.client, INSTANCES)

        def record(old: Any, new: Any) -> None:
            if new is not None and "phase" in new.get("status", {}):
                seen.append((new["status"]["phase"], new["status"]["readyAgents"]))

        reflector.store.add_event_handler(record)
        task = asyncio.create_task(reflector.run())
        await reflector.wait_for_sync()
        try:
            yield seen
        finally:
            task.cancel()
            await asyncio.wait({task})

    async def get_status(self, name: str = "llama") -> Any:
        """The status of an instance."""
        return (await self.client.get(INSTANCES, name, NAMESPACE)).get("status", {})

    async def wait_for(
        self, condition: Callable[[Any], bool], name: str = "llama", within: float = 60.0
    ) -> Any:
        """Wait until a condition holds for an instance's status; returns the status."""
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

    async def wait_for_phase(self, phase: str, name: str = "llama", within: float = 60.0) -> Any:
        """Wait for a phase; returns the status."""
        return await self.wait_for(lambda each: each.get("phase") == phase, name, within)

    async def list_events(self, name: str = "llama") -> list[tuple[str, str]]:
        """Reasons and messages of the events of an instance, in the order of their occurrence."""
        found = await self.list_objects(EVENTS)
        own = [each for each in found if each["involvedObject"]["name"] == name]
        own = [each for each in own if each["involvedObject"]["kind"] == "InferenceEngineInstance"]
        own.sort(key=lambda each: each["firstTimestamp"])
        return [(each["reason"], each["message"]) for each in own]

    async def annotate_node(self, node: str, annotations: dict[str, str | None]) -> None:
        """Set annotations of a node: faults of the simulation."""
        await self.client.patch(NODES, node, {"metadata": {"annotations": annotations}})

    async def cordon(self, node: str, *, cordoned: bool = True) -> None:
        """Cordon a node, or undo it."""
        await self.client.patch(NODES, node, {"spec": {"unschedulable": cordoned or None}})


def condition_of(status: Any, type_: str) -> Any:
    """A condition of a status; an empty one if there is none."""
    return next((each for each in status.get("conditions", []) if each["type"] == type_), {})


@asynccontextmanager
async def instance_cluster(
    *groups: NodeGroup, controllers: bool = True, settings: InstanceSettings | None = None
) -> AsyncGenerator[InstanceCluster]:
    """A cluster from start to stop, with the controllers unless told otherwise."""
    fleet = Fleet(groups or (accelerator_nodes(),))
    async with run_cluster(fleet=fleet, scheduler=True) as cluster:
        client = cluster.client("user")
        await install_crds(client, load_definitions())
        for each in (INSTANCES, GANGS, RESERVATIONS):
            await wait_for_condition(lambda each=each: _is_served(client, each))
        found = InstanceCluster(cluster, client)
        if not controllers:
            yield found
            return
        async with running_controllers(cluster, settings):
            yield found


@asynccontextmanager
async def running_controllers(
    cluster: EmbeddedCluster,
    settings: InstanceSettings | None = None,
    registry: CollectorRegistry | None = None,
) -> AsyncGenerator[None]:
    """The controllers from start to stop."""
    clock = LoopClock()
    built = build_instance_controllers(
        cluster.client("instances"),
        settings,
        now=clock.now,
        monotonic=clock.monotonic,
        registry=registry,
    )
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
