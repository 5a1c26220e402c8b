"""A scheduler that dies between any two of its writes, and another that goes on."""

import asyncio
from collections import Counter
from itertools import count

import pytest

from kilonova.kube import Client
from kilonova.local.cluster import Cluster
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import PODS, eventually, find, settle, virtual_time
from tests.scheduler.faults import assert_nothing_twice, is_binding, mortal_scheduler
from tests.scheduler.scheduling import (
    GANGS,
    a_cluster,
    all_placed,
    create_gang,
    fleet,
    make_priority,
    nodes_of,
    pod,
    scheduler_on,
)

pytestmark = virtual_time


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
@pytest.mark.parametrize("writes", [1, 2, 3, 4])
async def test_whatever_binding_is_the_last_the_gang_is_finished(
    writes: int, last_arrives: bool
) -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        names = await create_gang(client, "g", 4, gpus=4)
        dying = mortal_scheduler(cluster, writes, last_arrives=last_arrives, counts=is_binding)
        async with dying as died:
            await asyncio.wait_for(died.wait(), 60)
            await settle(1)
        bound = [node for node in (await nodes_of(client)).values() if node]
        assert len(bound) <= writes
        async with scheduler_on(cluster):
            await eventually(all_placed(client, names))
            await assert_nothing_twice(client)


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
async def test_whatever_write_is_the_last_gangs_are_whole_in_the_end(last_arrives: bool) -> None:
    """One scheduler after the other, each of which lives for one write more than the last."""
    async with a_cluster(fleet(3)) as cluster:
        client = cluster.client("tester")
        await make_priority(client, "high", 1000)
        names = await create_gang(client, "g", 4, gpus=4)
        names += await create_gang(client, "h", 2, gpus=4)
        await client.create(PODS, pod("too-large", 9), "default")
        task = asyncio.create_task(_live_and_die(cluster, last_arrives))
        try:
            await eventually(all_placed(client, names), within=600)
            await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
            await eventually(all_placed(client, ["chief"]), within=900)
            await settle(90)
        finally:
            task.cancel()
            await asyncio.wait({task})
        await assert_nothing_twice(client)
        placed = [name for name, node in (await nodes_of(client)).items() if node]
        sizes = Counter(name.partition("-")[0] for name in placed)
        assert sizes in ({"chief": 1, "g": 4}, {"chief": 1, "h": 2}), placed


async def _live_and_die(cluster: Cluster, last_arrives: bool) -> None:
    for writes in count(1):
        dying = mortal_scheduler(cluster, writes, last_arrives=last_arrives or writes == 1)
        async with dying as died:
            await died.wait()


async def test_a_gang_that_cannot_be_finished_gives_back_what_it_has() -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        names = await create_gang(client, "g", 4, gpus=4)
        dying = mortal_scheduler(cluster, 2, last_arrives=True, counts=is_binding)
        async with dying as died:
            await asyncio.wait_for(died.wait(), 60)
            await settle(1)
        bound = {name for name, node in (await nodes_of(client)).items() if node}
        assert len(bound) == 2
        await take_rest(client, names)
        async with scheduler_on(cluster, Settings(half_after=60)):
            await settle(50)
            assert {name for name in names if await find(client, PODS, name)} == set(names)

            async def given_back() -> bool:
                return not any([await find(client, PODS, name) for name in bound])

            await eventually(given_back, within=40)
            left = await nodes_of(client)
            assert [name for name in names if left.get(name)] == []


async def test_a_gang_that_was_whole_once_keeps_what_it_has() -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        async with scheduler_on(cluster, Settings(half_after=60)):
            names = await create_gang(client, "g", 4, gpus=4)
            await eventually(all_placed(client, names))
            status = {"status": {"lastScheduled": "2026-05-01T00:00:00Z"}}
            await client.patch(GANGS, "g", status, "default", subresource="status")
            await client.delete(PODS, names[0], "default", grace=0)
            await take_rest(client, names[1:])
            await client.create(PODS, pod(names[0], 4, of="g"), "default")
            await settle(200)
        async with scheduler_on(cluster, Settings(half_after=60)):
            await settle(200)
            nodes = await nodes_of(client)
            assert [bool(nodes[name]) for name in names] == [False, True, True, True]


async def take_rest(client: Client, names: list[str]) -> None:
    """Somebody else takes all GPUs that the pods of these names do not have."""
    taken = {name: node for name, node in (await nodes_of(client)).items() if node}
    for node in ("node-0", "node-1"):
        left = 8 - 4 * sum(taken.get(name) == node for name in names)
        if left:
            body = pod(f"foreign-{node}", left, schedulerName="other", nodeName=node)
            await client.create(PODS, body, "default")
