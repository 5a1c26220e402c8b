"""Preemption under faults: the preemptor waits until its victims have terminated."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from kilonova.kube.client.transport import Reply, Request
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import PODS, advance_time, find, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    are_all_placed,
    create_gang,
    nodes_by_pod,
    pod,
    running_scheduler,
)
from tests.scheduler.harness.fault_injection import (
    InterceptedTransport,
    assert_no_double_allocation,
    crashing_scheduler,
    full_cluster,
    killed_scheduler,
    nominated_node,
    set_slow_termination,
    transport_of,
)

pytestmark = virtual_time

SLOW = 40
"""Seconds until a victim has terminated."""


async def test_preemptor_is_bound_only_when_its_victims_are_gone() -> None:
    async with full_cluster() as (cluster, client), running_scheduler(cluster):
        names = await create_gang(client, "chief", 2, gpus=4, priorityClassName="high")
        await advance_time(20)
        assert [await nominated_node(client, name) for name in names] == ["node-0", "node-0"]
        assert not any([(await nodes_by_pod(client))[name] for name in names])
        await set_slow_termination(client, "low-0", slow=False)
        await advance_time(5)
        assert not any([(await nodes_by_pod(client))[name] for name in names])
        await set_slow_termination(client, "low-1", slow=False)
        await wait_for_condition(are_all_placed(client, names))
        assert [await nominated_node(client, name) for name in names] == ["", ""]
        await assert_no_double_allocation(client)


async def test_capacity_of_victims_goes_only_to_the_preemptor() -> None:
    async with full_cluster() as (cluster, client), running_scheduler(cluster):
        await client.create(PODS, pod("chief", 6, priorityClassName="high"), "default")
        await advance_time(5)
        await client.create(PODS, pod("small", 2), "default")
        await client.create(PODS, pod("large", 8), "default")
        await advance_time(5)
        nodes = await nodes_by_pod(client)
        assert [nodes[name] for name in ("chief", "small", "large")] == ["", "", ""]
        for name in ("low-0", "low-1"):
            await set_slow_termination(client, name, slow=False)
        await wait_for_condition(are_all_placed(client, ["chief", "small"]))
        await assert_no_double_allocation(client)
        assert (await nodes_by_pod(client))["large"] == ""


def is_nomination(request: Request) -> bool:
    return b"nominatedNodeName" in request.body


def is_eviction(request: Request) -> bool:
    return request.path.endswith("/eviction")


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
@pytest.mark.parametrize("act", [is_nomination, is_eviction])
@pytest.mark.parametrize("writes", [1, 2])
async def test_next_scheduler_keeps_the_nomination_after_any_crash(
    act: Callable[[Request], bool], writes: int, last_arrives: bool
) -> None:
    async with full_cluster() as (cluster, client):
        dying = crashing_scheduler(cluster, writes, last_arrives=last_arrives, counts=act)
        async with dying as died:
            names = await create_gang(client, "chief", 2, gpus=4, priorityClassName="high")
            await asyncio.wait_for(died.wait(), 60)
            await advance_time(5)
        greedy = [f"greedy-{index}" for index in range(8)]
        for name in greedy:
            await client.create(PODS, pod(name, 1), "default")
        async with running_scheduler(cluster):
            await advance_time(10)
            for name in ("low-0", "low-1"):
                await set_slow_termination(client, name, slow=False)
            await wait_for_condition(are_all_placed(client, names))
            await advance_time(10)
            await assert_no_double_allocation(client)
            nodes = await nodes_by_pod(client)
            assert not any(nodes[name] for name in greedy)


async def test_nomination_is_withdrawn_when_evictions_are_denied() -> None:
    async with full_cluster() as (cluster, client):
        way = InterceptedTransport(transport_of(cluster))
        nominations: list[str] = []
        """Of the pod, as they are written: it may soon be nominated again."""

        async def protect(request: Request) -> Reply | None:
            if request.method == "PATCH" and request.path.endswith("/pods/chief/status"):
                status = msgspec.json.decode(request.body).get("status", {})
                if "nominatedNodeName" in status:
                    nominations.append(status["nominatedNodeName"] or "")
            if not is_eviction(request):
                return None
            return Reply(
                429, b'{"kind":"Status","code":429,"message":"denied by a disruption budget"}', {}
            )

        way.intercept = protect
        async with killed_scheduler(way, SchedulerSettings(eviction_timeout=SLOW)):
            await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
            await advance_time(SLOW / 2)
            assert await nominated_node(client, "chief") == "node-0"

            async def taken_back() -> bool:
                return nominations[:2] == ["node-0", ""]

            await wait_for_condition(taken_back, within=SLOW)
            assert (await nodes_by_pod(client))["chief"] == ""
            way.intercept = None
            for name in ("low-0", "low-1"):
                await set_slow_termination(client, name, slow=False)
            await wait_for_condition(are_all_placed(client, ["chief"]))
            await assert_no_double_allocation(client)


async def test_freed_capacity_is_free_when_the_preemptor_is_deleted() -> None:
    async with full_cluster() as (cluster, client), running_scheduler(cluster):
        names = await create_gang(client, "chief", 2, gpus=4, priorityClassName="high")
        await advance_time(5)
        for name in names:
            await client.delete(PODS, name, "default", grace_period_seconds=0)
        await client.create(PODS, pod("next", 8), "default")
        for name in ("low-0", "low-1"):
            await set_slow_termination(client, name, slow=False)
        await wait_for_condition(are_all_placed(client, ["next"]), within=300)
        assert await find(client, PODS, "chief-0") is None
