"""Surplus pods are scheduled after all gangs that lack their minimum, whatever nodes do."""

import asyncio

from kilonova.kube import Client
from kilonova.scheduler.cycle.node_batch import NodeEventBatcher
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import NODES, PODS, advance_time, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    GANGS,
    are_all_placed,
    create_gang,
    create_priority_class,
    embedded_cluster,
    fleet,
    gang,
    nodes_by_pod,
    pod,
    running_scheduler,
    scheduled_cluster,
)
from tests.scheduler.harness.fault_injection import set_slow_termination

pytestmark = virtual_time

GPUS = 8


async def cordon(client: Client, node: str, on: bool) -> None:
    await client.patch(NODES, node, {"spec": {"unschedulable": on}})


async def test_nodes_added_one_by_one_go_to_a_gang_below_its_minimum() -> None:
    async with scheduled_cluster(fleet(3, GPUS)) as (cluster, _):
        client = cluster.client("tester")
        for name in ("node-1", "node-2"):
            await cordon(client, name, True)
        base = [f"base-{index}" for index in range(3)]
        for name in base:
            await client.create(PODS, pod(name, GPUS, gang="base"), "default")
        wanted = gang("base", {"w": base})
        wanted["spec"]["podgroups"][0]["minReplicas"] = 1
        await client.create(GANGS, wanted, "default")
        await wait_for_condition(are_all_placed(client, ["base-0"]))
        scaled = await create_gang(client, "scaled", 2, gpus=GPUS)
        await advance_time()
        for name in ("node-1", "node-2"):
            await cordon(client, name, False)
            await asyncio.sleep(0.3)
        await wait_for_condition(are_all_placed(client, scaled))
        assert [(await nodes_by_pod(client))[name] for name in base[1:]] == ["", ""]
        await client.delete(PODS, "scaled-0", "default")
        await wait_for_condition(lambda: _count_placed(client, base, 2))


async def _count_placed(client: Client, names: list[str], count: int) -> bool:
    nodes = await nodes_by_pod(client)
    return sum(bool(nodes[name]) for name in names) == count


async def test_surplus_pods_are_delayed_by_one_window_only() -> None:
    woken = asyncio.Event()
    batch, events = NodeEventBatcher(1.0, woken.set), 0
    delays: list[bool] = []
    for _ in range(8):
        events += 1
        delays.append(batch.is_delaying(events, has_waiting_gangs=True))
        await asyncio.sleep(0.3)
    assert delays == [True, True, True, True, False, True, True, True]
    assert woken.is_set()
    assert not batch.is_delaying(events + 1, has_waiting_gangs=False)


async def test_surplus_pods_bound_first_do_not_complete_a_gang() -> None:
    async with embedded_cluster(fleet(3, GPUS)) as cluster:
        client = cluster.client("tester")
        await create_priority_class(client, "high", 1000)
        for index in range(2):
            await client.create(
                PODS, pod(f"low-{index}", GPUS, nodeName=f"node-{index}"), "default"
            )
            await set_slow_termination(client, f"low-{index}")
        other = pod("other", GPUS, nodeName="node-2", priorityClassName="high")
        await client.create(PODS, other, "default")
        await advance_time(5)
        async with running_scheduler(
            cluster, SchedulerSettings(eviction_timeout=40, partial_gang_timeout=60)
        ):
            names = ["g-0", "g-1", "g-2"]
            for name in names:
                body = pod(name, GPUS, gang="g", priorityClassName="high")
                await client.create(PODS, body, "default")
            wanted = gang("g", {"w": names})
            wanted["spec"]["podgroups"][0]["minReplicas"] = 2
            await client.create(GANGS, wanted, "default")
            await advance_time(10)  # the minimum waits for its victims, which do not terminate
            await client.delete(PODS, "other", "default")
            await wait_for_condition(are_all_placed(client, ["g-2"]))

            async def given_back() -> bool:
                return "g-2" not in await nodes_by_pod(client)

            await wait_for_condition(given_back, within=600)


async def test_deleted_gangs_are_not_remembered_as_complete() -> None:
    async with scheduled_cluster(fleet(2, GPUS)) as (cluster, scheduler):
        client = cluster.client("tester")
        complete = scheduler.cache._gangs._completed  # pyright: ignore[reportPrivateUsage]  # it may not grow
        names = await create_gang(client, "g", 2, gpus=1)
        await client.create(PODS, pod("lone", 1), "default")
        await wait_for_condition(are_all_placed(client, [*names, "lone"]))
        await advance_time()
        assert complete == {"default/g"}
        await client.delete(GANGS, "g", "default")
        await advance_time()
        assert complete == set()
