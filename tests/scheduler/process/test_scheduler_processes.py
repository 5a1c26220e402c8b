"""`kilonova run scheduler` as a process, on both API servers."""

import asyncio
import signal
from os import kill
from pathlib import Path

import pytest

from kilonova.cli.install import install_definitions
from tests.conftest import Api
from tests.local.embedded_cluster import LEASES, PODS, wait_for_condition
from tests.scheduler.process.scheduler_process_cluster import scheduler_test_cluster
from tests.workloads.process.operator_process import OperatorProcess, component_process


@pytest.fixture
async def defined(api: Api) -> Api:
    """A server with our CRDs."""
    async with api.client() as client:
        await install_definitions(client)
    return api


def options(api: Api) -> tuple[str, ...]:
    """The Lease and the pods of this test only."""
    return ("--namespace", api.namespace, "--name", f"ours-{api.namespace}")


def leads(scheduler: OperatorProcess) -> bool:
    sample = 'leader_election_master_status{name="kilonova-scheduler"} 1.0'
    return sample in scheduler.request("/metrics")[1]


async def test_standby_completes_the_gang_when_the_leader_is_killed(
    defined: Api, tmp_path: Path
) -> None:
    kubeconfig, ours = defined.access.kubeconfig, {"schedulerName": f"ours-{defined.namespace}"}
    async with scheduler_test_cluster(defined, 10) as place:
        with (
            component_process(
                "scheduler", kubeconfig, tmp_path, *options(defined), name="a"
            ) as first,
            component_process(
                "scheduler", kubeconfig, tmp_path, *options(defined), name="b"
            ) as second,
        ):
            await asyncio.to_thread(first.process.wait_until, lambda: leads(first))
            assert not leads(second)
            names = await place.create_gang("g", 80, 1, **ours)

            async def some_bound() -> bool:
                pods = (await place.pods()).values()
                return any(pod["spec"].get("nodeName") for pod in pods)

            await wait_for_condition(some_bound, every=0.001)
            kill(first.process.pid, signal.SIGKILL)
            await place.until_placed(*names, within=60)
            await place.assert_no_double_allocation()
            await place.create(place.pod("late", 1, **ours))

            async def is_reported() -> bool:
                return await place.pod_scheduled_reason("late") == "Unschedulable"

            await wait_for_condition(is_reported, within=60)
            await place.client.delete(PODS, "g-0", place.namespace, grace_period_seconds=0)
            await place.until_placed("late")
            await place.assert_no_double_allocation()


async def test_stopping_scheduler_completes_bindings_and_releases_its_lease(
    defined: Api, tmp_path: Path
) -> None:
    kubeconfig, ours = defined.access.kubeconfig, {"schedulerName": f"ours-{defined.namespace}"}
    async with scheduler_test_cluster(defined, 4) as place:
        with component_process("scheduler", kubeconfig, tmp_path, *options(defined)) as scheduler:
            names = await place.create_gang("g", 32, 1, **ours)

            async def some_bound() -> bool:
                pods = (await place.pods()).values()
                return any(pod["spec"].get("nodeName") for pod in pods)

            await wait_for_condition(some_bound, every=0.001)
            kill(scheduler.process.pid, signal.SIGTERM)
            assert await asyncio.to_thread(scheduler.process.wait) == 0
            nodes = [pod["spec"].get("nodeName") for pod in (await place.pods()).values()]
            assert len(nodes) == len(names)
            assert all(nodes)
            lease = await place.client.get(LEASES, "kilonova-scheduler", defined.namespace)
            assert not lease["spec"].get("holderIdentity")
