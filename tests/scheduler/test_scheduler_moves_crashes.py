"""A scheduler that dies while it moves pods, and another that goes on."""

import asyncio
from itertools import count

import pytest

from kilonova.kube import Client, Manager
from kilonova.local.cluster import Cluster
from kilonova.scheduler.scheduler import build_scheduler
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import (
    CONFIG_MAPS,
    PODS,
    LoopClock,
    eventually,
    settle,
    virtual_time,
)
from tests.scheduler.faults import assert_nothing_twice, transport_of
from tests.scheduler.moving import (
    MOVING,
    REPLICA_SETS,
    at_once,
    halves,
    mover_on,
    owned_pod,
    placed,
    run_set,
)
from tests.scheduler.scheduling import a_cluster, all_placed, fleet, nodes_of, pod
from tests.workloads.mortal import Mortal, is_write

pytestmark = virtual_time


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
async def test_whatever_write_is_the_last_all_have_a_place_in_the_end(last_arrives: bool) -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        async with mover_on(cluster, Settings()):
            await halves(client)
            await client.create(PODS, pod("big", 8), "default")
            await settle(30)
        task = asyncio.create_task(_live_and_die(cluster, last_arrives))
        try:
            await eventually(all_placed(client, ["big"]), within=3000)
            left, right = await placed(client, "left"), await placed(client, "right")
        finally:
            task.cancel()
            await asyncio.wait({task})
        assert left == right != (await nodes_of(client))["big"]
        await assert_nothing_twice(client)


async def test_the_next_scheduler_holds_the_room_of_pods_on_their_way() -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        owner = await client.create(CONFIG_MAPS, {"metadata": {"name": "owner"}}, "default")
        slow = ["example.com/slow"]
        async with mover_on(cluster):
            full = await run_set(client, "large", 6)
            await run_set(client, "filler", 2)
            await client.create(PODS, owned_pod(owner, "small-0", 2, finalizers=slow), "default")
            await eventually(all_placed(client, ["small-0"]))
            await client.delete(REPLICA_SETS, "filler", "default")

            async def told() -> bool:
                return (
                    "deletionTimestamp"
                    in (await client.get(PODS, "small-0", "default"))["metadata"]
                )

            await eventually(told)
        conditions = (await client.get(PODS, "small-0", "default"))["status"]["conditions"]
        said = {each["type"]: each.get("message") for each in conditions}
        assert said["scheduling.kilonova.dev/Moving"] == full
        async with mover_on(cluster, Settings()):
            await client.create(PODS, pod("thief", 2), "default")
            await eventually(all_placed(client, ["thief"]))
            assert (await nodes_of(client))["thief"] != full
            await client.create(PODS, owned_pod(owner, "small-1", 2), "default")
            await eventually(all_placed(client, ["small-1"]))
            assert (await nodes_of(client))["small-1"] == full
            await assert_nothing_twice(client)


async def _live_and_die(cluster: Cluster, last_arrives: bool) -> None:
    for writes in count(1):
        transport = Mortal(
            transport_of(cluster), writes, last_arrives=last_arrives or writes == 1, counts=is_write
        )
        clock = LoopClock()
        scheduler = build_scheduler(
            Client(transport, field_manager="scheduler"),
            MOVING,
            now=clock.now,
            monotonic=clock.monotonic,
            aside=at_once,
        )
        manager = Manager()
        manager.add(*scheduler.parts)
        manager.add_leading(*scheduler.leading)
        run = asyncio.create_task(manager.run(signals=False))
        try:
            await transport.died.wait()
        finally:
            run.cancel()
            await asyncio.wait({run})
