"""The main faults on both API servers: crashes between bindings, lost responses, foreign
bindings."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from kilonova.cli.install import install_definitions
from kilonova.kube import Client, Transport
from kilonova.kube.client.transport import Reply, Request
from kilonova.scheduler.settings import SchedulerSettings
from tests.conftest import Api
from tests.local.embedded_cluster import PODS, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import create_priority_class
from tests.scheduler.harness.fault_injection import (
    InterceptedTransport,
    is_binding,
    killed_scheduler,
)
from tests.scheduler.process.scheduler_process_cluster import (
    SchedulerTestCluster,
    scheduler_test_cluster,
)
from tests.workloads.crashing_operator import CrashingTransport


@pytest.fixture
async def defined(api: Api) -> Api:
    """A server with our CRDs."""
    async with api.client() as client:
        await install_definitions(client)
    return api


def settings(api: Api) -> SchedulerSettings:
    """Settings of a scheduler that is isolated from those of other tests."""
    return SchedulerSettings(scheduler_names=frozenset({f"ours-{api.namespace}"}))


@asynccontextmanager
async def transport_to(api: Api) -> AsyncGenerator[Transport]:
    """A transport of its own."""
    async with api.client() as client:
        yield _transport(client)


def _transport(client: Client) -> Transport:
    return client._transport  # pyright: ignore[reportPrivateUsage]  # a test disturbs it


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
async def test_gang_is_completed_after_a_crash_at_any_binding(
    defined: Api, last_arrives: bool
) -> None:
    ours = {"schedulerName": f"ours-{defined.namespace}"}
    async with scheduler_test_cluster(defined, 2) as place, transport_to(defined) as way:
        names = await place.create_gang("g", 4, 4, **ours)
        for bindings in (1, 2):
            dying = CrashingTransport(
                way, bindings, last_write_arrives=last_arrives, counts_as_write=is_binding
            )
            async with killed_scheduler(dying, settings(defined)):
                await asyncio.wait_for(dying.crashed.wait(), 30)
        async with killed_scheduler(way, settings(defined)):
            await place.until_placed(*names)
            await place.assert_no_double_allocation()


async def test_lost_response_and_foreign_binding_cause_no_double_allocation(defined: Api) -> None:
    ours = {"schedulerName": f"ours-{defined.namespace}"}
    async with scheduler_test_cluster(defined, 3) as place, transport_to(defined) as inner:
        way = InterceptedTransport(inner)
        disturbed: set[str] = set()

        async def disturb(request: Request) -> Reply | None:
            if not is_binding(request):
                return None
            name = request.path.split("/")[-2]
            if name == "g-0" and name not in disturbed:
                disturbed.add(name)
                await inner.send(request)
                return Reply(504, b'{"kind":"Status","code":504,"message":"timeout"}', {})
            if name == "g-1" and name not in disturbed:
                disturbed.add(name)
                node = json.loads(request.body)["target"]["name"]
                other = next(place.node(i) for i in range(3) if place.node(i) != node)
                await place.client.bind(name, place.namespace, other)
            return None

        way.intercept = disturb
        async with killed_scheduler(way, settings(defined)):
            names = await place.create_gang("g", 2, 4, **ours)
            await place.until_placed(*names)
            assert disturbed == {"g-0", "g-1"}
            await place.create(place.pod("whole", 8, **ours))
            await place.until_placed("whole")
            await place.assert_no_double_allocation()
            nodes = {name: pod["spec"]["nodeName"] for name, pod in (await place.pods()).items()}
            assert nodes["whole"] not in (nodes["g-0"], nodes["g-1"])


async def test_nomination_survives_a_scheduler_restart(defined: Api) -> None:
    """The victims have a finalizer, which is removed only under the next scheduler."""
    ours = {"schedulerName": f"ours-{defined.namespace}"}
    priority = f"high-{defined.namespace}"
    async with scheduler_test_cluster(defined, 1) as place, transport_to(defined) as way:
        await create_priority_class(place.client, priority, 1000)
        async with killed_scheduler(way, settings(defined)):
            low = await place.create_gang("low", 2, 4, **ours)
            await place.until_placed(*low)
            await _set_slow_termination(place, low, ["example.com/slow"])
            await place.create(place.pod("chief", 8, priorityClassName=priority, **ours))

            async def promised() -> bool:
                pods = await place.pods()
                deletion_times = [pods[name]["metadata"].get("deletionTimestamp") for name in low]
                nominated = pods["chief"].get("status", {}).get("nominatedNodeName")
                return all(deletion_times) and nominated == place.node(0)

            await wait_for_condition(promised)
        for index in range(8):
            await place.create(place.pod(f"greedy-{index}", 1, **ours))
        async with killed_scheduler(way, settings(defined)):
            await _set_slow_termination(place, low, None)
            await place.until_placed("chief")
            pods = await place.pods()
            assert not any(pods[f"greedy-{index}"]["spec"].get("nodeName") for index in range(8))


async def _set_slow_termination(
    place: SchedulerTestCluster, names: list[str], finalizers: list[str] | None
) -> None:
    for name in names:
        patch = {"metadata": {"finalizers": finalizers}}
        await place.client.patch(PODS, name, patch, place.namespace)
