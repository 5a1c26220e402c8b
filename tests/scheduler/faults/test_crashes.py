"""A scheduler that crashes between any two of its writes, and another that continues."""

import asyncio
from collections import Counter
from itertools import count

import pytest

from kilonova.kube import Client
from kilonova.local.cluster import EmbeddedCluster
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import PODS, advance_time, find, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    GANGS,
    are_all_placed,
    create_gang,
    create_priority_class,
    embedded_cluster,
    fleet,
    nodes_by_pod,
    pod,
    running_scheduler,
)
from tests.scheduler.harness.fault_injection import (
    assert_no_double_allocation,
    crashing_scheduler,
    is_binding,
)

pytestmark = virtual_time


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
@pytest.mark.parametrize("writes", [1, 2, 3, 4])
async def test_gang_is_completed_after_a_crash_at_any_binding(
    writes: int, last_arrives: bool
) -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        names = await create_gang(client, "g", 4, gpus=4)
        dying = crashing_scheduler(cluster, writes, last_arrives=last_arrives, counts=is_binding)
        async with dying as died:
            await asyncio.wait_for(died.wait(), 60)
            await advance_time(1)
        bound = [node for node in (await nodes_by_pod(client)).values() if node]
        assert len(bound) <= writes
        async with running_scheduler(cluster):
            await wait_for_condition(are_all_placed(client, names))
            await assert_no_double_allocation(client)


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
async def test_gangs_are_complete_after_a_crash_at_any_write(last_arrives: bool) -> None:
    """Schedulers one after the other, each of which survives one write more than the last."""
    async with embedded_cluster(fleet(3)) as cluster:
        client = cluster.client("tester")
        await create_priority_class(client, "high", 1000)
        names = await create_gang(client, "g", 4, gpus=4)
        names += await create_gang(client, "h", 2, gpus=4)
        await client.create(PODS, pod("too-large", 9), "default")
        task = asyncio.create_task(_run_until_crash(cluster, last_arrives))
        try:
            await wait_for_condition(are_all_placed(client, names), within=600)
            await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
            await wait_for_condition(are_all_placed(client, ["chief"]), within=900)
            await advance_time(90)
        finally:
            task.cancel()
            await asyncio.wait({task})
        await assert_no_double_allocation(client)
        placed = [name for name, node in (await nodes_by_pod(client)).items() if node]
        sizes = Counter(name.partition("-")[0] for name in placed)
        assert sizes in ({"chief": 1, "g": 4}, {"chief": 1, "h": 2}), placed


async def _run_until_crash(cluster: EmbeddedCluster, last_arrives: bool) -> None:
    for writes in count(1):
        dying = crashing_scheduler(cluster, writes, last_arrives=last_arrives or writes == 1)
        async with dying as died:
            await died.wait()


async def test_partial_gang_that_cannot_complete_is_evicted() -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        names = await create_gang(client, "g", 4, gpus=4)
        dying = crashing_scheduler(cluster, 2, last_arrives=True, counts=is_binding)
        async with dying as died:
            await asyncio.wait_for(died.wait(), 60)
            await advance_time(1)
        bound = {name for name, node in (await nodes_by_pod(client)).items() if node}
        assert len(bound) == 2
        await occupy_remaining_gpus(client, names)
        async with running_scheduler(cluster, SchedulerSettings(partial_gang_timeout=60)):
            await advance_time(50)
            assert {name for name in names if await find(client, PODS, name)} == set(names)

            async def given_back() -> bool:
                return not any([await find(client, PODS, name) for name in bound])

            await wait_for_condition(given_back, within=40)
            left = await nodes_by_pod(client)
            assert [name for name in names if left.get(name)] == []


async def test_gang_that_was_complete_once_keeps_its_pods() -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        async with running_scheduler(cluster, SchedulerSettings(partial_gang_timeout=60)):
            names = await create_gang(client, "g", 4, gpus=4)
            await wait_for_condition(are_all_placed(client, names))
            status = {"status": {"lastScheduled": "2026-05-01T00:00:00Z"}}
            await client.patch(GANGS, "g", status, "default", subresource="status")
            await client.delete(PODS, names[0], "default", grace_period_seconds=0)
            await occupy_remaining_gpus(client, names[1:])
            await client.create(PODS, pod(names[0], 4, gang="g"), "default")
            await advance_time(200)
        async with running_scheduler(cluster, SchedulerSettings(partial_gang_timeout=60)):
            await advance_time(200)
            nodes = await nodes_by_pod(client)
            assert [bool(nodes[name]) for name in names] == [False, True, True, True]


async def occupy_remaining_gpus(client: Client, names: list[str]) -> None:
    """Another scheduler uses all GPUs except those of the named pods."""
    taken = {name: node for name, node in (await nodes_by_pod(client)).items() if node}
    for node in ("node-0", "node-1"):
        left = 8 - 4 * sum(taken.get(name) == node for name in names)
        if left:
            body = pod(f"foreign-{node}", left, schedulerName="other", nodeName=node)
            await client.create(PODS, body, "default")
