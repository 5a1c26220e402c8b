"""Migrations that free nodes."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.scheduler.settings import ConsolidationLimits, SchedulerSettings
from tests.local.embedded_cluster import (
    CONFIG_MAPS,
    EVENTS,
    PODS,
    advance_time,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)
from tests.scheduler.harness.consolidation import (
    CONSOLIDATION_SETTINGS,
    REPLICA_SETS,
    consolidating_scheduler,
    create_fragmented_nodes,
    create_half_full_nodes,
    is_placed,
    nodes_of_replica_set,
    owned_pod,
    run_replica_set,
)
from tests.scheduler.harness.embedded_scheduler import (
    GANGS,
    are_all_placed,
    embedded_cluster,
    fleet,
    gang,
    nodes_by_pod,
    pod,
)
from tests.scheduler.harness.fault_injection import assert_no_double_allocation

pytestmark = virtual_time

BUDGETS = unstructured_resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)


async def test_pod_is_migrated_to_empty_a_node() -> None:
    registry = CollectorRegistry()
    async with (
        embedded_cluster(fleet(2)) as cluster,
        consolidating_scheduler(cluster, registry=registry),
    ):
        client = cluster.client("tester")
        full, alone = await create_fragmented_nodes(client)
        assert await is_placed(client, "small", other_than=alone) == full
        await assert_no_double_allocation(client)
        for outcome in ("started", "completed"):
            labels = {"outcome": outcome}
            assert registry.get_sample_value("kilonova_scheduler_migrations_total", labels) == 1
        events = (await client.list(EVENTS, "default")).items
        messages = [
            each["message"] for each in events if each["reason"] == "EvictedForConsolidation"
        ]
        assert messages == [
            f"evicted to free nodes; capacity for its replacement is held on node {full}"
        ]


@pytest.mark.parametrize(
    "settings",
    [
        SchedulerSettings(),
        SchedulerSettings(
            consolidation=ConsolidationLimits(interval=10, min_arrivals_per_migration=100)
        ),
    ],
    ids=["disabled", "too few pods created"],
)
async def test_nothing_is_migrated_without_limits(settings: SchedulerSettings) -> None:
    async with embedded_cluster(fleet(2)) as cluster, consolidating_scheduler(cluster, settings):
        client = cluster.client("tester")
        _, alone = await create_fragmented_nodes(client)
        await advance_time(600)
        assert await nodes_of_replica_set(client, "small") == [alone]


async def test_non_preemptible_pod_is_not_migrated() -> None:
    async with embedded_cluster(fleet(2)) as cluster, consolidating_scheduler(cluster):
        client = cluster.client("tester")
        keeps = {"scheduling.kilonova.dev/preemptible": "false"}
        _, alone = await create_fragmented_nodes(client, **keeps)
        await advance_time(600)
        assert await nodes_of_replica_set(client, "small") == [alone]


async def test_pods_with_a_disruption_budget_are_not_migrated() -> None:
    async with embedded_cluster(fleet(2)) as cluster, consolidating_scheduler(cluster):
        client = cluster.client("tester")
        guarded = {"key": "app", "operator": "In", "values": ["small", "large", "leaving"]}
        budget = {
            "metadata": {"name": "stay"},
            "spec": {"maxUnavailable": 0, "selector": {"matchExpressions": [guarded]}},
        }
        await client.create(BUDGETS, budget, "default")
        full, alone = await create_fragmented_nodes(client)
        await advance_time(300)
        assert await nodes_of_replica_set(client, "small") == [alone]
        await client.delete(BUDGETS, "stay", "default")
        assert await is_placed(client, "small", other_than=alone) == full


async def test_pod_without_controller_is_not_migrated() -> None:
    async with embedded_cluster(fleet(2)) as cluster, consolidating_scheduler(cluster):
        client = cluster.client("tester")
        await run_replica_set(client, "large", 6)
        await run_replica_set(client, "leaving", 6)
        await client.create(PODS, pod("bare", 2), "default")
        await wait_for_condition(are_all_placed(client, ["bare"]))
        node = (await nodes_by_pod(client))["bare"]
        beside = "large" if [node] == await nodes_of_replica_set(client, "large") else "leaving"
        await client.delete(REPLICA_SETS, beside, "default")
        await advance_time(300)
        assert (await nodes_by_pod(client))["bare"] == node


async def test_pending_pod_gets_capacity_by_migrations() -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        async with consolidating_scheduler(cluster, SchedulerSettings()):
            await create_half_full_nodes(client)
            await client.create(PODS, pod("big", 8), "default")
            await advance_time(100)
            assert (await nodes_by_pod(client))["big"] == ""
        async with consolidating_scheduler(cluster):
            await wait_for_condition(are_all_placed(client, ["big"]), within=120)
            left, right = await is_placed(client, "left"), await is_placed(client, "right")
            assert left == right != (await nodes_by_pod(client))["big"]
            await assert_no_double_allocation(client)


async def test_gang_is_migrated_as_a_whole() -> None:
    async with embedded_cluster(fleet(2)) as cluster, consolidating_scheduler(cluster):
        client = cluster.client("tester")
        owner = await client.create(CONFIG_MAPS, {"metadata": {"name": "owner"}}, "default")
        full = await run_replica_set(client, "large", 4)
        await run_replica_set(client, "filler", 4)
        await make_gang(client, owner, ["w0", "w1"])
        await client.delete(REPLICA_SETS, "filler", "default")
        await wait_deleted(client, PODS, "w0")
        await wait_deleted(client, PODS, "w1")
        await client.create(PODS, pod("thief", 4), "default")
        await wait_for_condition(are_all_placed(client, ["thief"]))
        await make_gang(client, owner, ["w2", "w3"])
        nodes = await nodes_by_pod(client)
        assert {nodes["w2"], nodes["w3"]} == {full}
        assert nodes["thief"] != full


async def test_hold_without_replacement_expires() -> None:
    settings = SchedulerSettings(
        consolidation=ConsolidationLimits(interval=10, replacement_timeout=60), eviction_timeout=30
    )
    async with (
        embedded_cluster(fleet(2)) as cluster,
        consolidating_scheduler(cluster, settings) as scheduler,
    ):
        client = cluster.client("tester")
        owner = await client.create(CONFIG_MAPS, {"metadata": {"name": "owner"}}, "default")
        full = await run_replica_set(client, "large", 4)
        await run_replica_set(client, "filler", 4)
        await make_gang(client, owner, ["w0", "w1"])
        await client.delete(REPLICA_SETS, "filler", "default")
        await wait_deleted(client, PODS, "w0")
        await wait_deleted(client, PODS, "w1")
        snapshot = scheduler.cache.cluster.snapshot
        row, gpus = snapshot.row(full), snapshot.column("nvidia.com/gpu")
        assert snapshot.free[gpus, row] == 0
        await advance_time(61)
        assert snapshot.free[gpus, row] == 4
        assert "default/g" not in scheduler.cache.cluster.running_gangs


async def test_unchanged_cluster_is_not_searched_again() -> None:
    async with (
        embedded_cluster(fleet(2)) as cluster,
        consolidating_scheduler(cluster, CONSOLIDATION_SETTINGS) as scheduler,
    ):
        client = cluster.client("tester")
        full, alone = await create_fragmented_nodes(client)
        await is_placed(client, "small", other_than=alone)
        await advance_time(300)
        pods = {each["metadata"]["uid"] for each in (await client.list(PODS, "default")).items}
        changes = scheduler.cache.cluster.snapshot.changes.position
        await advance_time(3000)
        left = {each["metadata"]["uid"] for each in (await client.list(PODS, "default")).items}
        assert left == pods
        assert scheduler.cache.cluster.snapshot.changes.position == changes
        assert await nodes_of_replica_set(client, "small") == [full]


async def make_gang(client: Client, owner: Any, names: list[str]) -> None:
    """Act as an operator: recreate the pods of a gang, and list them in its PodGang."""
    for name in names:
        await client.create(PODS, owned_pod(owner, name, 2, gang="g"), "default")
    await client.apply(GANGS, "g", gang("g", {"w": names}), "default", field_manager="operator")
    await wait_for_condition(are_all_placed(client, names))
