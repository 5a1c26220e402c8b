"""A scheduler that crashes during migrations, and another that continues."""

import asyncio

import pytest

from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import (
    CONFIG_MAPS,
    PODS,
    advance_time,
    virtual_time,
    wait_for_condition,
)
from tests.scheduler.harness.consolidation import (
    CONSOLIDATION_SETTINGS,
    REPLICA_SETS,
    consolidating_scheduler,
    create_half_full_nodes,
    is_placed,
    owned_pod,
    run_replica_set,
    run_until_crash,
)
from tests.scheduler.harness.embedded_scheduler import (
    are_all_placed,
    embedded_cluster,
    fleet,
    nodes_by_pod,
    pod,
)
from tests.scheduler.harness.fault_injection import assert_no_double_allocation

pytestmark = virtual_time


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
async def test_all_pods_are_placed_after_a_crash_at_any_write(last_arrives: bool) -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        async with consolidating_scheduler(cluster, SchedulerSettings()):
            await create_half_full_nodes(client)
            await client.create(PODS, pod("big", 8), "default")
            await advance_time(30)
        task = asyncio.create_task(
            run_until_crash(cluster, CONSOLIDATION_SETTINGS, last_arrives=last_arrives)
        )
        try:
            await wait_for_condition(are_all_placed(client, ["big"]), within=3000)
            left, right = await is_placed(client, "left"), await is_placed(client, "right")
        finally:
            task.cancel()
            await asyncio.wait({task})
        assert left == right != (await nodes_by_pod(client))["big"]
        await assert_no_double_allocation(client)


async def test_next_scheduler_restores_capacity_holds() -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        owner = await client.create(CONFIG_MAPS, {"metadata": {"name": "owner"}}, "default")
        slow = ["example.com/slow"]
        async with consolidating_scheduler(cluster):
            full = await run_replica_set(client, "large", 6)
            await run_replica_set(client, "filler", 2)
            await client.create(PODS, owned_pod(owner, "small-0", 2, finalizers=slow), "default")
            await wait_for_condition(are_all_placed(client, ["small-0"]))
            await client.delete(REPLICA_SETS, "filler", "default")

            async def is_reported() -> bool:
                return (
                    "deletionTimestamp"
                    in (await client.get(PODS, "small-0", "default"))["metadata"]
                )

            await wait_for_condition(is_reported)
        conditions = (await client.get(PODS, "small-0", "default"))["status"]["conditions"]
        messages = {each["type"]: each.get("message") for each in conditions}
        assert messages["scheduling.kilonova.dev/Migrating"] == full
        async with consolidating_scheduler(cluster, SchedulerSettings()):
            await client.create(PODS, pod("thief", 2), "default")
            await wait_for_condition(are_all_placed(client, ["thief"]))
            assert (await nodes_by_pod(client))["thief"] != full
            await client.create(PODS, owned_pod(owner, "small-1", 2), "default")
            await wait_for_condition(are_all_placed(client, ["small-1"]))
            assert (await nodes_by_pod(client))["small-1"] == full
            await assert_no_double_allocation(client)
