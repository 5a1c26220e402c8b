"""Pods that make way for others: who comes waits until they are gone, whatever happens."""

import asyncio
from collections.abc import Callable

import pytest

from kilonova.kube.transport import Reply, Request
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import PODS, eventually, find, settle, virtual_time
from tests.scheduler.faults import (
    Disturbed,
    abandoned_scheduler,
    assert_nothing_twice,
    full_cluster,
    hold,
    mortal_scheduler,
    nominated,
    transport_of,
)
from tests.scheduler.scheduling import (
    all_placed,
    create_gang,
    nodes_of,
    pod,
    scheduler_on,
)

pytestmark = virtual_time

SLOW = 40
"""Seconds that pods take to go."""


async def test_who_comes_is_bound_only_when_the_others_are_gone() -> None:
    async with full_cluster() as (cluster, client), scheduler_on(cluster):
        names = await create_gang(client, "chief", 2, gpus=4, priorityClassName="high")
        await settle(20)
        assert [await nominated(client, name) for name in names] == ["node-0", "node-0"]
        assert not any([(await nodes_of(client))[name] for name in names])
        await hold(client, "low-0", held=False)
        await settle(5)
        assert not any([(await nodes_of(client))[name] for name in names])
        await hold(client, "low-1", held=False)
        await eventually(all_placed(client, names))
        assert [await nominated(client, name) for name in names] == ["", ""]
        await assert_nothing_twice(client)


async def test_room_that_is_being_made_goes_to_nobody_else() -> None:
    async with full_cluster() as (cluster, client), scheduler_on(cluster):
        await client.create(PODS, pod("chief", 6, priorityClassName="high"), "default")
        await settle(5)
        await client.create(PODS, pod("small", 2), "default")
        await client.create(PODS, pod("large", 8), "default")
        await settle(5)
        nodes = await nodes_of(client)
        assert [nodes[name] for name in ("chief", "small", "large")] == ["", "", ""]
        for name in ("low-0", "low-1"):
            await hold(client, name, held=False)
        await eventually(all_placed(client, ["chief", "small"]))
        await assert_nothing_twice(client)
        assert (await nodes_of(client))["large"] == ""


def is_nomination(request: Request) -> bool:
    return b"nominatedNodeName" in request.body


def is_eviction(request: Request) -> bool:
    return request.path.endswith("/eviction")


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
@pytest.mark.parametrize("act", [is_nomination, is_eviction])
@pytest.mark.parametrize("writes", [1, 2])
async def test_whatever_is_done_last_the_next_scheduler_keeps_the_promise(
    act: Callable[[Request], bool], writes: int, last_arrives: bool
) -> None:
    async with full_cluster() as (cluster, client):
        dying = mortal_scheduler(cluster, writes, last_arrives=last_arrives, counts=act)
        async with dying as died:
            names = await create_gang(client, "chief", 2, gpus=4, priorityClassName="high")
            await asyncio.wait_for(died.wait(), 60)
            await settle(5)
        greedy = [f"greedy-{index}" for index in range(8)]
        for name in greedy:
            await client.create(PODS, pod(name, 1), "default")
        async with scheduler_on(cluster):
            await settle(10)
            for name in ("low-0", "low-1"):
                await hold(client, name, held=False)
            await eventually(all_placed(client, names))
            await settle(10)
            await assert_nothing_twice(client)
            nodes = await nodes_of(client)
            assert not any(nodes[name] for name in greedy)


async def test_when_pods_may_not_be_evicted_the_promise_is_taken_back() -> None:
    async with full_cluster() as (cluster, client):
        way = Disturbed(transport_of(cluster))

        async def protect(request: Request) -> Reply | None:
            if not is_eviction(request):
                return None
            return Reply(429, b'{"kind":"Status","code":429,"message":"a budget says no"}', {})

        way.before = protect
        async with abandoned_scheduler(way, Settings(patience=SLOW)):
            await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
            await settle(SLOW / 2)
            assert await nominated(client, "chief") == "node-0"

            async def taken_back() -> bool:
                return await nominated(client, "chief") == ""

            await eventually(taken_back, within=SLOW)
            assert (await nodes_of(client))["chief"] == ""
            way.before = None
            for name in ("low-0", "low-1"):
                await hold(client, name, held=False)
            await eventually(all_placed(client, ["chief"]))
            await assert_nothing_twice(client)


async def test_when_who_comes_goes_itself_the_room_is_free_for_others() -> None:
    async with full_cluster() as (cluster, client), scheduler_on(cluster):
        names = await create_gang(client, "chief", 2, gpus=4, priorityClassName="high")
        await settle(5)
        for name in names:
            await client.delete(PODS, name, "default", grace=0)
        await client.create(PODS, pod("next", 8), "default")
        for name in ("low-0", "low-1"):
            await hold(client, name, held=False)
        await eventually(all_placed(client, ["next"]), within=300)
        assert await find(client, PODS, "chief-0") is None
