"""Agents that are killed at each write and each change of a device, and drivers that fail at each
call: the next agent goes on, nothing is leaked, and nothing in use is touched."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from kilonova.api.gpu.annotations import TOPOLOGY
from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.fault_injection import CHANGES, Fault, FaultyBackend, Operation
from kilonova.gpu.devices.model import MigInstance
from kilonova.gpu.devices.simulated import ProcessLoad, SimulatedBackend
from kilonova.kube import Client
from tests.gpu.agent.agent_cluster import find_condition_of, list_instances
from tests.gpu.agent.local_agents import (
    NODE,
    build_backend,
    run_agent,
    run_node,
    transport_of,
)
from tests.harness.campaigns import select_cases
from tests.local.embedded_cluster import (
    EVENTS,
    NODES,
    advance_time,
    virtual_time,
    wait_for_condition,
)
from tests.workloads.crashing_operator import CrashingTransport, is_write

pytestmark = virtual_time

T = TypeVar("T")

PODS = ["0:1g.10gb@0", "0:3g.40gb@4", "1"]
WANTED = {0: [("1g.10gb", 0), ("3g.40gb", 4)]}


async def wait_until_converged(client: Client) -> None:
    async def converged() -> bool:
        node = await client.get(NODES, NODE)
        if TOPOLOGY not in node["metadata"].get("annotations", {}):
            return False
        ready = await find_condition_of(client, NODE, "MIGReady")
        healthy = await find_condition_of(client, NODE, "GPUHealthy")
        return (
            await list_instances(client, NODE) == WANTED
            and ready["status"] == "True"
            and healthy["status"] == "True"
        )

    await wait_for_condition(converged, within=1200)


def prepare_busy_instance(backend: SimulatedBackend) -> str:
    """An instance that a process uses, and one that nobody needs; the UUID of the first."""
    uuid = backend.read_inventory().devices[0].uuid
    backend.set_mig_mode(uuid, True)
    used = backend.create_instance(uuid, "1g.10gb", 0).uuid
    backend.create_instance(uuid, "1g.10gb", 5)
    backend.set_load(used, ProcessLoad(7, 0.5, 1 << 30))
    return used


@pytest.mark.campaign
@pytest.mark.parametrize("arrives", [True, False], ids=["arrives", "is lost"])
@pytest.mark.parametrize("writes", range(1, 6))
async def test_agent_killed_at_a_write(tmp_path: Path, writes: int, arrives: bool) -> None:
    backend = build_backend()
    used = prepare_busy_instance(backend)
    async with run_node(PODS) as (cluster, client):
        inner = transport_of(cluster.client("agent"))
        crashing = CrashingTransport(
            inner, writes, last_write_arrives=arrives, counts_as_write=is_write
        )
        async with run_agent(Client(crashing), backend, tmp_path):
            done = asyncio.create_task(wait_until_converged(client))
            crash = asyncio.create_task(crashing.crashed.wait())
            await asyncio.wait({done, crash}, return_when=asyncio.FIRST_COMPLETED)
            for task in (done, crash):
                task.cancel()
        async with run_agent(cluster.client("agent"), backend, tmp_path):
            await wait_until_converged(client)
        assert used in {each.uuid for each in backend.read_inventory().devices[0].instances}


class DyingBackend(FaultyBackend):
    """Ends its caller at the nth change, before or after the effect, as a kill does."""

    def __init__(self, backend: SimulatedBackend, changes: int, after_effect: bool) -> None:
        super().__init__(backend)
        self.died = asyncio.Event()
        self._left = changes
        self._after_effect = after_effect

    def create_instance(self, device: str, profile: str, start: int) -> MigInstance:
        return self._change(lambda: self.backend.create_instance(device, profile, start))

    def destroy_instance(self, device: str, instance: str) -> None:
        self._change(lambda: self.backend.destroy_instance(device, instance))

    def set_mig_mode(self, device: str, enabled: bool) -> None:
        self._change(lambda: self.backend.set_mig_mode(device, enabled))

    def _change(self, effect: Callable[[], T]) -> T:
        self._left -= 1
        if self._left:
            return effect()
        if self._after_effect:
            effect()
        self.died.set()
        raise asyncio.CancelledError


@pytest.mark.campaign
@pytest.mark.parametrize("after", [True, False], ids=["after", "before"])
@pytest.mark.parametrize("changes", [1, 2, 3])
async def test_agent_killed_at_a_change_of_a_device(
    tmp_path: Path, changes: int, after: bool
) -> None:
    backend = build_backend()
    dying = DyingBackend(backend, changes, after)
    async with run_node(PODS) as (_, client):
        async with run_agent(client, dying, tmp_path):
            await asyncio.wait_for(dying.died.wait(), 60)
        async with run_agent(client, backend, tmp_path):
            await wait_until_converged(client)


KINDS = [
    GpuErrorKind.UNKNOWN,
    GpuErrorKind.TIMEOUT,
    GpuErrorKind.IN_USE,
    GpuErrorKind.INSUFFICIENT_RESOURCES,
    GpuErrorKind.NO_PERMISSION,
    GpuErrorKind.DRIVER_NOT_FOUND,
]
OPERATIONS: list[Operation] = ["read_inventory", "read_telemetry", "wait_events", *CHANGES]
CASES = [(operation, kind) for operation in OPERATIONS for kind in KINDS]


@pytest.mark.campaign
@pytest.mark.parametrize(("operation", "kind"), select_cases(CASES, 16), ids=str)
async def test_driver_that_fails_at_a_call(
    tmp_path: Path, operation: Operation, kind: GpuErrorKind
) -> None:
    backend = build_backend()
    used = prepare_busy_instance(backend)
    faulty = FaultyBackend(backend)
    async with run_node(PODS) as (_, client), run_agent(client, faulty, tmp_path) as agent:
        faulty.inject(Fault(operation, kind, times=2))
        agent.agent.mark_stale()
        agent.wake()
        await wait_until_converged(client)
        assert used in {each.uuid for each in backend.read_inventory().devices[0].instances}


async def test_driver_that_is_gone_is_said_on_the_node(tmp_path: Path) -> None:
    backend = build_backend()
    faulty = FaultyBackend(backend)
    async with run_node(PODS) as (_, client), run_agent(client, faulty, tmp_path) as agent:
        await wait_until_converged(client)
        faulty.inject(Fault("read_inventory", GpuErrorKind.DRIVER_NOT_FOUND, times=None))
        agent.agent.mark_stale()
        agent.wake()

        async def said() -> bool:
            found = await find_condition_of(client, NODE, "GPUHealthy")
            return (found["status"], found["reason"]) == ("Unknown", "DriverNotFound")

        await wait_for_condition(said)
        assert await list_instances(client, NODE) == WANTED
        faulty.clear()
        await wait_until_converged(client)


async def test_failed_change_is_visible_and_tried_again(tmp_path: Path) -> None:
    backend = build_backend()
    faulty = FaultyBackend(backend)
    kind = GpuErrorKind.INSUFFICIENT_RESOURCES
    faulty.inject(Fault("create_instance", kind, times=None))
    async with run_node(PODS) as (_, client), run_agent(client, faulty, tmp_path):

        async def failed() -> bool:
            found = await find_condition_of(client, NODE, "MIGReady")
            return found is not None and found["reason"] == "MIGChangeFailed"

        await wait_for_condition(failed)
        found = await find_condition_of(client, NODE, "MIGReady")
        assert "InsufficientResources" in found["message"]
        faulty.clear()
        await wait_until_converged(client)


async def test_agent_without_a_driver_does_not_start(tmp_path: Path) -> None:
    faulty = FaultyBackend(build_backend())
    faulty.inject(Fault("read_inventory", GpuErrorKind.DRIVER_NOT_FOUND))
    async with run_node() as (_, client):
        with pytest.raises(GpuError, match="DriverNotFound"):
            async with run_agent(client, faulty, tmp_path):
                raise AssertionError("unreachable")
        async with run_agent(client, faulty, tmp_path):  # the lock was given back
            pass


async def test_damaged_journal_is_told_and_pods_keep_their_instances(tmp_path: Path) -> None:
    backend = build_backend()
    async with run_node(PODS) as (_, client):
        async with run_agent(client, backend, tmp_path):
            await wait_until_converged(client)
        before = backend.read_inventory().devices[0].instances
        journal = tmp_path / "mig.journal"
        journal.write_bytes(b"00000000 damaged\n" + journal.read_bytes())
        async with run_agent(client, backend, tmp_path):
            await wait_until_converged(client)
            await advance_time(5)
            reasons = [each["reason"] for each in (await client.list(EVENTS)).items]
            assert "MIGJournalDamaged" in reasons
        assert backend.read_inventory().devices[0].instances == before
