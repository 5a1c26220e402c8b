"""Pods beyond a gang's minimum come after all gangs that wait for theirs, whatever nodes do."""

import asyncio

from kilonova.kube import Client
from kilonova.scheduler.nodebatch import NodeBatch
from tests.local.embedded_cluster import NODES, PODS, eventually, settle, virtual_time
from tests.scheduler.scheduling import (
    GANGS,
    all_placed,
    create_gang,
    fleet,
    gang,
    nodes_of,
    pod,
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
