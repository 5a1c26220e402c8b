"""A manager that dies at any of its writes, and another one that continues."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from kilonova.api.fleet import Cluster
from kilonova.api.inference_engine import Deployment, DeploymentSpec, Failover, Release
from kilonova.fleet.documents import DESIRED, OBSERVED, SAVED_OBJECTS
from kilonova.fleet.manager import ManagerSettings
from kilonova.fleet.manager.context import ManagerContext
from kilonova.fleet.manager.fleet_pass import FleetLeader
from kilonova.fleet.manager.hub import FINALIZER, build_hub
from kilonova.fleet.manager.hub_writer import HubWriter
from kilonova.fleet.store import FleetStore, FleetTerm
from kilonova.kube import Client, InProcessTransport, Reply, Request
from kilonova.kube.election import LeaderElectionTiming, Leadership
from kilonova.kube.events import EventRecorder
from kilonova.objectstore import ObjectInfo, ObjectStoreError, Precondition, Unavailable
from tests.fleet.planning.simulated_fleet import (
    NAMESPACE,
    START,
    STEP,
    SimulatedMember,
    metadata,
    release,
)
from tests.fleet.store.stores import Bucket, MemoryStore


class DyingStore(MemoryStore):
    """The store of a manager that dies at one of its writes, before or after it has an effect."""

    def __init__(self, bucket: Bucket, writes: int, *, has_effect: bool) -> None:
        super().__init__(bucket)
        self.writes = writes
        self._has_effect = has_effect

    async def put(self, key: str, body: bytes, when: Precondition | None = None) -> ObjectInfo:
        self.writes -= 1
        if self.writes == 0:
            if self._has_effect:
                await super().put(key, body, when)
            self.link.cut = True
        if self.link.cut:
            raise Unavailable(self.name, "the manager died")
        return await super().put(key, body, when)


class LedFleet:
    """Members without API servers, and one manager after the other."""

    def __init__(self) -> None:
        self.bucket = Bucket()
        self.now = START
        self.members = {name: SimulatedMember(name, 100) for name in ("a", "b", "c")}
        self._store = FleetStore(MemoryStore(self.bucket))
        self._versions: dict[str, str] = {}
        self._terms = 0
        finalizers = (FINALIZER,)
        self.objects: list[Cluster | Deployment | Release] = [
            *(Cluster(metadata(name, "")) for name in self.members),
            release("v1"),
            Deployment(
                metadata("chat"),
                DeploymentSpec(
                    release="v1", replicas=9, failover=Failover(after="60s", failback_after="60s")
                ),
            ),
        ]
        for each in self.objects:
            each.metadata = replace(each.metadata, finalizers=finalizers)

    def get_now(self) -> datetime:
        return self.now

    def elect(self, store: MemoryStore | None = None) -> FleetLeader:
        """A new manager, with the hub as it was at the beginning: statuses were never written."""
        self._terms += 1
        client = Client(InProcessTransport(_refuse))
        hub = build_hub(client)
        for each in self.objects:
            match each:
                case Cluster():
                    hub.clusters.store.put(each)
                case Deployment():
                    hub.deployments.store.put(each)
                case Release():
                    hub.releases.store.put(each)
        for cache in (hub.clusters.store, hub.deployments.store, hub.releases.store):
            cache.has_synced = True
        context = ManagerContext(
            hub,
            HubWriter(client, lambda: False),
            EventRecorder(client, "test"),
            ManagerSettings(),
            None,
            self.get_now,
            lambda: (self.now - START).total_seconds(),
        )
        leadership = Leadership("test", self._terms, 0.0, LeaderElectionTiming(), lambda: 0.0)
        fleet_store = FleetStore(store or MemoryStore(self.bucket))
        term = FleetTerm(fleet_store, (1 << 32) + self._terms, leadership)
        return FleetLeader(context, term, asyncio.Event())

    async def step(self, leader: FleetLeader) -> None:
        """Members read, run and report; then a pass."""
        for member in self.members.values():
            if member.is_down:
                continue
            if not member.is_silent:
                told = await self._store.read(DESIRED, member.name)
                member.read(() if told is None else told.document.deployments)
            member.step()
            if not member.is_silent:
                written = await self._store.write(
                    OBSERVED, member.report(), self._versions.get(member.name)
                )
                self._versions[member.name] = written.version
        self.now += timedelta(seconds=STEP)
        await leader.run_pass()

    async def run(self, leader: FleetLeader, seconds: float) -> None:
        for _ in range(int(seconds / STEP)):
            await self.step(leader)

    def ready(self) -> int:
        return sum(each.ready() for each in self.members.values() if not each.is_down)

    async def count_desired(self) -> int:
        found = await self._store.read_all(DESIRED)
        return sum(each.replicas for one in found for each in one.document.deployments)

    async def count_relocated(self) -> int:
        found = await self._store.read(SAVED_OBJECTS, "deployment", NAMESPACE, "chat")
        assert found is not None
        return found.document.state["relocated"]


async def _refuse(request: Request) -> Reply:
    return Reply(503, b"{}", {})


def lose_places(fleet: LedFleet) -> None:
    fleet.members["a"].accelerators = 2


def lose_member(fleet: LedFleet) -> None:
    fleet.members["a"].is_silent = True


def roll_out(fleet: LedFleet) -> None:
    fleet.objects.append(release("v2"))
    for each in fleet.objects:
        if isinstance(each, Deployment):
            each.spec = replace(each.spec, release="v2")
        if isinstance(each, Release):
            each.metadata = replace(each.metadata, finalizers=(FINALIZER,))


EVENTS: dict[str, tuple[Callable[[LedFleet], None], int]] = {
    "instances without a place": (lose_places, 9),
    "lost member": (lose_member, 12),
    "rollout": (roll_out, 9),
}


@pytest.mark.parametrize("has_effect", [False, True], ids=["unwritten", "written"])
@pytest.mark.parametrize(("cause", "ready"), EVENTS.values(), ids=EVENTS)
async def test_next_manager_continues_after_a_crash_at_any_write(
    cause: Callable[[LedFleet], None], ready: int, has_effect: bool
) -> None:
    for writes in range(1, 40):
        fleet = LedFleet()
        leader = fleet.elect()
        await leader.load()
        await fleet.run(leader, 60)
        assert fleet.ready() == 9
        cause(fleet)
        store = DyingStore(fleet.bucket, writes, has_effect=has_effect)
        dying = fleet.elect(store)
        with suppress(ObjectStoreError):
            await dying.load()
            await fleet.run(dying, 200)
        is_dead = store.link.cut
        successor = fleet.elect()
        await successor.load()
        await fleet.run(successor, 300)
        assert fleet.ready() == ready, writes
        assert await fleet.count_desired() == ready, writes
        if cause is lose_places:
            assert await fleet.count_relocated() == 2, writes
        if not is_dead:
            return
    raise AssertionError("there are more writes than were tried")
