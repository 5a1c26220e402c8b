"""`kilonova run scheduler` as a process, on both servers."""

import asyncio
import signal
from os import kill
from pathlib import Path

import pytest

from kilonova.cli.install import install_definitions
from tests.conftest import Api
from tests.local.embedded_cluster import LEASES, PODS, eventually
from tests.scheduler.process.scheduler_ground import ground
from tests.workloads.process.operator_process import OperatorProcess, part_process


@pytest.fixture
async def defined(api: Api) -> Api:
    """A server that has our kinds."""
    async with api.client() as client:
        await install_definitions(client)
    return api


def options(api: Api) -> tuple[str, ...]:
    """This test's own Lease, and its own pods."""
    return ("--namespace", api.namespace, "--name", f"ours-{api.namespace}")


def leads(scheduler: OperatorProcess) -> bool:
    sample = 'leader_election_master_status{name="kilonova-scheduler"} 1.0'
    return sample in scheduler.ask("/metrics")[1]


async def test_when_the_leader_is_killed_in_a_gang_the_other_goes_on(
    defined: Api, tmp_path: Path
) -> None:
    kubeconfig, ours = defined.access.kubeconfig, {"schedulerName": f"ours-{defined.namespace}"}
    async with ground(defined, 10) as place:
        with (
            part_process("scheduler", kubeconfig, tmp_path, *options(defined), name="a") as first,
            part_process("scheduler", kubeconfig, tmp_path, *options(defined), name="b") as second,
        ):
            await asyncio.to_thread(first.process.wait_until, lambda: leads(first))
            assert not leads(second)
            names = await place.create_gang("g", 80, 1, **ours)

            async def some_bound() -> bool:
                pods = (await place.pods()).values()
                return any(pod["spec"].get("nodeName") for pod in pods)

            await eventually(some_bound, within=30, every=0.001)
            kill(first.process.pid, signal.SIGKILL)
            await place.until_placed(*names, within=60)
            await place.assert_nothing_twice()
            await place.create(place.pod("late", 1, **ours))

            async def told() -> bool:
                return await place.reason("late") == "Unschedulable"

            await eventually(told, within=60)
            await place.client.delete(PODS, "g-0", place.namespace, grace=0)
            await place.until_placed("late")
            await place.assert_nothing_twice()


async def test_it_finishes_what_it_began_and_gives_its_lease_back(
    defined: Api, tmp_path: Path
) -> None:
    kubeconfig, ours = defined.access.kubeconfig, {"schedulerName": f"ours-{defined.namespace}"}
    async with ground(defined, 4) as place:
        with part_process("scheduler", kubeconfig, tmp_path, *options(defined)) as scheduler:
            names = await place.create_gang("g", 32, 1, **ours)

            async def some_bound() -> bool:
                pods = (await place.pods()).values()
                return any(pod["spec"].get("nodeName") for pod in pods)

            await eventually(some_bound, within=30, every=0.001)
            kill(scheduler.process.pid, signal.SIGTERM)
            assert await asyncio.to_thread(scheduler.process.wait) == 0
            nodes = [pod["spec"].get("nodeName") for pod in (await place.pods()).values()]
            assert len(nodes) == len(names)
            assert all(nodes)
            lease = await place.client.get(LEASES, "kilonova-scheduler", defined.namespace)
            assert not lease["spec"].get("holderIdentity")
