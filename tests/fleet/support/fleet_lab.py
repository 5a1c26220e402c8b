"""A hub and members: embedded clusters in virtual time, with one store in memory."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from kilonova.api.crds import load_definitions
from kilonova.fleet.manager import ManagerSettings, build_manager
from kilonova.fleet.member import MemberSettings, build_member
from kilonova.fleet.planning import PlanSettings
from kilonova.fleet.store import EndpointSource, FleetStore
from kilonova.kube import Client, Manager, NotFound, Runnable, unstructured_resource
from kilonova.local.apiserver.bootstrap import install_crds
from kilonova.local.cluster import EmbeddedCluster
from tests.fleet.store.stores import Bucket, Link, MemoryStore
from tests.fleet.support.instance_controller import (
    DEPLOYMENTS as INSTANCE_DEPLOYMENTS,
)
from tests.fleet.support.instance_controller import (
    INSTANCES,
    FakeInstanceController,
)
from tests.local.embedded_cluster import LoopClock, run_cluster, wait_for_condition

CLUSTERS = unstructured_resource("fleet.kilonova.dev", "v1alpha1", "clusters", "Cluster", False)
DEPLOYMENTS = unstructured_resource(
    "inference-engine.groq.io", "v1", "deployments", "Deployment", True
)
RELEASES = unstructured_resource("inference-engine.groq.io", "v1", "releases", "Release", True)
EVENTS = unstructured_resource("", "v1", "events", "Event", True)
NAMESPACE = "default"
STORE = "/memory"
FAST = PlanSettings(suspect_after=20.0, probe_timeout=10.0)

__all__ = [
    "CLUSTERS",
    "DEPLOYMENTS",
    "EVENTS",
    "INSTANCES",
    "INSTANCE_DEPLOYMENTS",
    "NAMESPACE",
    "RELEASES",
    "STORE",
    "FleetLab",
    "run_hub",
    "run_lab",
]


def loop_time() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Running:
    """Runnables that can be stopped, or killed."""

    runnables: list[Runnable]
    task: asyncio.Task[None] | None = None
    link: Link = field(default_factory=Link)
    """Its network to the store."""
    manager: Manager = field(default_factory=lambda: Manager(grace=5))

    def start(self) -> None:
        self.manager = Manager(grace=5)
        self.manager.add(*self.runnables)
        self.task = asyncio.create_task(self.manager.run(signals=False))

    async def stop(self) -> None:
        if self.task is not None:
            self.manager.stop()
            await self.task

    async def kill(self) -> None:
        """End it at once, as if the process were killed."""
        self.link.cut = True
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})
            self.task = None


@dataclass
class LabMember:
    name: str
    cluster: EmbeddedCluster
    client: Client
    instances: FakeInstanceController
    agent: Running

    def partition(self, cut: bool = True) -> None:
        """Cut the agent off from the store."""
        self.agent.link.cut = cut

    async def list_deployments(self) -> dict[str, Any]:
        found = await self.client.list(INSTANCE_DEPLOYMENTS)
        return {each["metadata"]["name"]: each for each in found.items}

    async def count_ready(self) -> int:
        found = await self.client.list(INSTANCES)
        return sum(each.get("status", {}).get("phase") == "Ready" for each in found.items)


@dataclass
class FleetLab:
    """The fleet and a user's client of the hub."""

    bucket: Bucket
    """The first store."""
    hub: EmbeddedCluster
    client: Client
    members: dict[str, LabMember] = field(default_factory=dict[str, LabMember])
    managers: dict[str, Running] = field(default_factory=dict[str, Running])
    source: str = STORE
    """The endpoint, as on the command line."""
    buckets: dict[str, Bucket] = field(default_factory=dict[str, Bucket])
    """By endpoint."""
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    """The metrics of the last manager."""

    def __post_init__(self) -> None:
        self.buckets[STORE] = self.bucket

    def add_manager(self, name: str = "nebula-a", hub: EmbeddedCluster | None = None) -> Running:
        cluster = hub or self.hub
        link = Link()
        self.registry = CollectorRegistry()
        manager = build_manager(
            cluster.client("system:admin"),
            EndpointSource(self.source),
            ManagerSettings(plan=FAST, register_members=True, hub_timeout=5.0),
            open_store=_opener(self.buckets, link),
            identity=name,
            now=LoopClock().now,
            monotonic=loop_time,
            boot=loop_time,
            registry=self.registry,
            new_id=cluster.new_id,
        )
        running = Running(list(manager.runnables), link=link)
        running.start()
        self.managers[name] = running
        return running

    async def add_member(self, name: str, cluster: EmbeddedCluster, capacity: int) -> None:
        client = cluster.client("system:admin")
        link = Link()
        member = build_member(
            client,
            MemberSettings(name, namespace="kube-system", region=f"region-{name}"),
            EndpointSource(self.source),
            open_store=_opener(self.buckets, link),
            now=LoopClock().now,
            monotonic=loop_time,
            new_id=cluster.new_id,
        )
        instances = FakeInstanceController(client, capacity)
        agent = Running([*member.runnables, *member.leader_runnables], link=link)
        agent.start()
        self.members[name] = LabMember(name, cluster, client, instances, agent)

    async def create_release(self, name: str, agents: int = 2) -> None:
        spec = {"model": "llama32-90b", "targetAgents": agents}
        await self.client.create(RELEASES, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)

    async def deploy(self, name: str = "chat", **spec: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"release": "v1", "replicas": 6, **spec}}
        await self.client.create(DEPLOYMENTS, body, NAMESPACE)

    async def change(self, name: str = "chat", **spec: Any) -> None:
        await self.client.patch(DEPLOYMENTS, name, {"spec": spec}, NAMESPACE)

    async def get_status(self, name: str = "chat") -> Any:
        try:
            return (await self.client.get(DEPLOYMENTS, name, NAMESPACE)).get("status", {})
        except NotFound:
            return {}

    async def get_desired(self, name: str = "chat") -> dict[str, int]:
        status = await self.get_status(name)
        found = {each["cluster"]: each.get("desired", 0) for each in status.get("clusters", ())}
        return {cluster: count for cluster, count in found.items() if count}

    async def count_ready(self) -> int:
        return sum([await each.count_ready() for each in self.members.values()])

    async def get_health(self, cluster: str) -> str:
        found = await self.client.get(CLUSTERS, cluster)
        return found.get("status", {}).get("health", "")

    async def list_reasons(self, client: Client | None = None) -> list[str]:
        found = await (client or self.client).list(EVENTS)
        return [each["reason"] for each in found.items]

    async def wait_for(self, check: Callable[[], Awaitable[bool]], within: float = 120.0) -> None:
        await wait_for_condition(check, within=within, every=0.5)

    async def wait_desired(self, expected: dict[str, int], within: float = 120.0) -> None:
        async def holds() -> bool:
            return await self.get_desired() == expected

        await self.wait_for(holds, within)

    async def wait_ready(self, count: int, within: float = 120.0) -> None:
        async def holds() -> bool:
            return await self.count_ready() == count

        await self.wait_for(holds, within)

    async def wait_health(self, cluster: str, health: str, within: float = 120.0) -> None:
        async def holds() -> bool:
            return await self.get_health(cluster) == health

        await self.wait_for(holds, within)


def _opener(buckets: dict[str, Bucket], link: Link) -> Callable[[str], FleetStore]:
    def open_store(endpoint: str) -> FleetStore:
        bucket = buckets.get(endpoint)
        lost = Link(cut=True)
        return FleetStore(MemoryStore(bucket or Bucket(), link=link if bucket else lost))

    return open_store


@asynccontextmanager
async def run_hub() -> AsyncGenerator[EmbeddedCluster]:
    """A cluster with our kinds."""
    async with run_cluster(controllers="") as cluster:
        await install_crds(cluster.client("system:admin"), load_definitions())
        yield cluster


@asynccontextmanager
async def run_lab(
    members: dict[str, int], *, manager: bool = True, source: str = STORE
) -> AsyncGenerator[FleetLab]:
    """A hub with a manager, and members with room for so many instances of each deployment."""
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(run_hub())
        lab = FleetLab(Bucket(), hub, hub.client("system:admin"), source=source)
        controllers: list[asyncio.Task[None]] = []
        try:
            for name, capacity in members.items():
                cluster = await stack.enter_async_context(run_hub())
                await lab.add_member(name, cluster, capacity)
                controllers.append(asyncio.create_task(lab.members[name].instances.run()))
            if manager:
                lab.add_manager()
            yield lab
        finally:
            for task in controllers:
                task.cancel()
            for each in (*lab.managers.values(), *(each.agent for each in lab.members.values())):
                await each.kill()
