"""Pods beyond a gang's minimum come after all gangs that wait for theirs, whatever nodes do."""

import asyncio

from kilonova.kube import Client
from kilonova.scheduler.nodebatch import NodeBatch
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import NODES, PODS, eventually, settle, virtual_time
from tests.scheduler.faults import hold
from tests.scheduler.scheduling import (
    GANGS,
    a_cluster,
    all_placed,
    create_gang,
    fleet,
    gang,
    make_priority,
    nodes_of,
    pod,
    scheduler_on,
    scheduling,
)

pytestmark = virtual_time

GPUS = 8


async def cordon(client: Client, node: str, on: bool) -> None:
    await client.patch(NODES, node, {"spec": {"unschedulable": on}})


async def test_nodes_that_come_one_by_one_go_to_a_gang_that_lacks_its_minimum() -> None:
    async with scheduling(fleet(3, GPUS)) as (cluster, _):
        client = cluster.client("tester")
        for name in ("node-1", "node-2"):
            await cordon(client, name, True)
        base = [f"base-{index}" for index in range(3)]
        for name in base:
            await client.create(PODS, pod(name, GPUS, of="base"), "default")
        wanted = gang("base", {"w": base})
        wanted["spec"]["podgroups"][0]["minReplicas"] = 1
        await client.create(GANGS, wanted, "default")
        await eventually(all_placed(client, ["base-0"]))
        scaled = await create_gang(client, "scaled", 2, gpus=GPUS)
        await settle()
        for name in ("node-1", "node-2"):
            await cordon(client, name, False)
            await asyncio.sleep(0.3)
        await eventually(all_placed(client, scaled))
        assert [(await nodes_of(client))[name] for name in base[1:]] == ["", ""]
        await client.delete(PODS, "scaled-0", "default")
        await eventually(lambda: _count_placed(client, base, 2))


async def _count_placed(client: Client, names: list[str], count: int) -> bool:
    nodes = await nodes_of(client)
    return sum(bool(nodes[name]) for name in names) == count


async def test_extras_are_delayed_by_one_window_however_many_nodes_change() -> None:
    woken = asyncio.Event()
    batch, events = NodeBatch(1.0, woken.set), 0
    waits: list[bool] = []
    for _ in range(8):
        events += 1
        waits.append(batch.is_open(events, gangs_wait=True))
        await asyncio.sleep(0.3)
    assert waits == [True, True, True, True, False, True, True, True]
    assert woken.is_set()
    assert not batch.is_open(events + 1, gangs_wait=False)


async def test_extras_that_are_bound_first_do_not_complete_a_gang() -> None:
    async with a_cluster(fleet(3, GPUS)) as cluster:
        client = cluster.client("tester")
        await make_priority(client, "high", 1000)
        for index in range(2):
            await client.create(
                PODS, pod(f"low-{index}", GPUS, nodeName=f"node-{index}"), "default"
            )
            await hold(client, f"low-{index}")
        other = pod("other", GPUS, nodeName="node-2", priorityClassName="high")
        await client.create(PODS, other, "default")
        await settle(5)
        async with scheduler_on(cluster, Settings(patience=40, half_after=60)):
            names = ["g-0", "g-1", "g-2"]
            for name in names:
                body = pod(name, GPUS, of="g", priorityClassName="high")
                await client.create(PODS, body, "default")
            wanted = gang("g", {"w": names})
            wanted["spec"]["podgroups"][0]["minReplicas"] = 2
            await client.create(GANGS, wanted, "default")
            await settle(10)  # the minimum waits for its victims, which do not terminate
            await client.delete(PODS, "other", "default")
            await eventually(all_placed(client, ["g-2"]))

            async def given_back() -> bool:
                return "g-2" not in await nodes_of(client)

            await eventually(given_back, within=600)


async def test_gangs_that_are_gone_are_not_remembered_as_complete() -> None:
    async with scheduling(fleet(2, GPUS)) as (cluster, scheduler):
        client = cluster.client("tester")
        complete = scheduler.world._gangs._whole  # pyright: ignore[reportPrivateUsage]  # it may not grow
        names = await create_gang(client, "g", 2, gpus=1)
        await client.create(PODS, pod("lone", 1), "default")
        await eventually(all_placed(client, [*names, "lone"]))
        await settle()
        assert complete == {"default/g"}
        await client.delete(GANGS, "g", "default")
        await settle()
        assert complete == set()
