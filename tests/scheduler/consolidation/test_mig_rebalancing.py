"""Pods with MIG instances are evicted where a MIGStrategy allows it, and get better places."""

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from kilonova.api.gpu.annotations import DEVICES
from kilonova.api.gpu.mig_strategy import MIG_STRATEGY, NodeMigStrategy, format_mig_strategy
from kilonova.kube import Client
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import (
    EVENTS,
    NODES,
    PODS,
    advance_time,
    virtual_time,
    wait_for_condition,
)
from tests.scheduler.consolidation.test_migrations import BUDGETS
from tests.scheduler.harness.consolidation import (
    REPLICA_SETS,
    consolidating_scheduler,
    replica_set,
    run_until_crash,
)
from tests.scheduler.harness.embedded_scheduler import (
    are_all_placed,
    embedded_cluster,
    fleet,
    pod,
)
from tests.scheduler.harness.fault_injection import assert_no_double_allocation

pytestmark = virtual_time

DEFAULTS = SchedulerSettings()
STRATEGY = NodeMigStrategy("inference", 1, {"1g.10gb": 1.0}, dynamic=True, evicts_pods=True)


def request_instance(body: dict[str, Any], profile: str) -> dict[str, Any]:
    """Request an instance instead of GPUs."""
    resources = body["spec"]["containers"][0]["resources"] = {}
    resources["limits"] = resources["requests"] = {f"nvidia.com/mig-{profile}": "1"}
    return body


async def run_instance(client: Client, name: str, profile: str, **annotations: str) -> str:
    """Create a ReplicaSet of one pod with an instance; returns its devices."""
    body = replica_set(name, 1, **annotations)
    request_instance(body["spec"]["template"], profile)
    await client.create(REPLICA_SETS, body, "default")
    return await wait_for_devices(client, name)


async def wait_for_devices(client: Client, name: str, *, other_than: str = "") -> str:
    """Wait until the pod of a ReplicaSet has devices; returns `NODE/DEVICES`."""
    found = ""

    async def has_some() -> bool:
        nonlocal found
        found = await read_devices(client, name)
        return found not in ("", other_than)

    await wait_for_condition(has_some, within=900)
    return found


async def read_devices(client: Client, name: str) -> str:
    listing = await client.list(PODS, "default", label_selector=f"app={name}")
    for each in listing.items:
        meta = each["metadata"]
        devices = meta.get("annotations", {}).get(DEVICES)
        if devices and each["spec"].get("nodeName") and "deletionTimestamp" not in meta:
            return f"{each['spec']['nodeName']}/{devices}"
    return ""


async def allow_eviction(client: Client, strategy: NodeMigStrategy = STRATEGY) -> None:
    """Give all nodes a strategy."""
    patch = {"metadata": {"annotations": {MIG_STRATEGY: format_mig_strategy(strategy)}}}
    for node in (await client.list(NODES)).items:
        await client.patch(NODES, node["metadata"]["name"], patch)


async def create_fragmented_gpus(client: Client, **annotations: str) -> tuple[str, str]:
    """One GPU with a large instance, another with a small one that would fit beside it; returns
    the places of both pods."""
    large = await run_instance(client, "large", "4g.40gb")
    await run_instance(client, "leaving", "3g.40gb")
    small = await run_instance(client, "small", "1g.10gb", **annotations)
    await client.delete(REPLICA_SETS, "leaving", "default")
    await wait_for_condition(lambda: is_gone(client, "leaving"))
    assert large.split(":")[0] != small.split(":")[0]
    return large, small


async def is_gone(client: Client, name: str) -> bool:
    return not (await client.list(PODS, "default", label_selector=f"app={name}")).items


async def list_reasons(client: Client, kind: str) -> list[str]:
    """The reasons of the events of a kind of objects, in the order of their time."""
    found = (await client.list(EVENTS)).items
    own = [each for each in found if each["involvedObject"]["kind"] == kind]
    return [each["reason"] for each in sorted(own, key=lambda each: each["firstTimestamp"])]


def count_rebalances(registry: CollectorRegistry, outcome: str) -> float:
    name = "kilonova_scheduler_mig_rebalances_total"
    return registry.get_sample_value(name, {"outcome": outcome}) or 0


async def test_instance_moves_and_frees_a_gpu() -> None:
    registry = CollectorRegistry()
    async with (
        embedded_cluster(fleet(1, gpus=2)) as cluster,
        consolidating_scheduler(cluster, DEFAULTS, registry=registry),
    ):
        client = cluster.client("tester")
        large, small = await create_fragmented_gpus(client)
        await allow_eviction(client)
        moved = await wait_for_devices(client, "small", other_than=small)
        assert moved.split(":")[0] == large.split(":")[0]
        await assert_no_double_allocation(client)

        async def is_complete() -> bool:
            return await list_reasons(client, "MIGStrategy") == [
                "RebalanceStarted",
                "RebalanceComplete",
            ]

        await wait_for_condition(is_complete)
        assert "EvictedForRebalance" in await list_reasons(client, "Pod")
        assert [count_rebalances(registry, each) for each in ("started", "completed")] == [1, 1]


@pytest.mark.parametrize(
    "strategy",
    [
        None,
        NodeMigStrategy("inference", 1, dynamic=True),
        NodeMigStrategy("inference", 1, evicts_pods=True),
        NodeMigStrategy("inference", 1, dynamic=True, evicts_pods=True, gpus=()),
    ],
    ids=["no strategy", "no eviction", "not dynamic", "no GPUs"],
)
async def test_nothing_moves_without_permission(strategy: NodeMigStrategy | None) -> None:
    async with (
        embedded_cluster(fleet(1, gpus=2)) as cluster,
        consolidating_scheduler(cluster, DEFAULTS),
    ):
        client = cluster.client("tester")
        _, small = await create_fragmented_gpus(client)
        if strategy is not None:
            await allow_eviction(client, strategy)
        await advance_time(1800)
        assert await read_devices(client, "small") == small


async def test_pod_that_is_not_preemptible_stays() -> None:
    async with (
        embedded_cluster(fleet(1, gpus=2)) as cluster,
        consolidating_scheduler(cluster, DEFAULTS),
    ):
        client = cluster.client("tester")
        keeps = {"scheduling.kilonova.dev/preemptible": "false"}
        _, small = await create_fragmented_gpus(client, **keeps)
        await allow_eviction(client)
        await advance_time(1800)
        assert await read_devices(client, "small") == small


async def test_disruption_budget_holds() -> None:
    async with (
        embedded_cluster(fleet(1, gpus=2)) as cluster,
        consolidating_scheduler(cluster, DEFAULTS),
    ):
        client = cluster.client("tester")
        guarded = {"key": "app", "operator": "In", "values": ["small", "large"]}
        budget = {
            "metadata": {"name": "stay"},
            "spec": {"maxUnavailable": 0, "selector": {"matchExpressions": [guarded]}},
        }
        await client.create(BUDGETS, budget, "default")
        _, small = await create_fragmented_gpus(client)
        await allow_eviction(client)
        await advance_time(900)
        assert await read_devices(client, "small") == small
        await client.delete(BUDGETS, "stay", "default")
        await wait_for_devices(client, "small", other_than=small)


async def test_pending_large_instance_gets_its_place() -> None:
    async with (
        embedded_cluster(fleet(1, gpus=2)) as cluster,
        consolidating_scheduler(cluster, DEFAULTS),
    ):
        client = cluster.client("tester")
        await create_fragmented_gpus(client)
        await client.create(PODS, request_instance(pod("big"), "7g.80gb"), "default")
        await advance_time(120)
        await allow_eviction(client)
        await wait_for_condition(are_all_placed(client, ["big"]), within=900)
        await wait_for_devices(client, "small")
        await assert_no_double_allocation(client)
        assert "RebalanceStarted" in await list_reasons(client, "MIGStrategy")


async def test_pods_do_not_move_back_and_forth() -> None:
    registry = CollectorRegistry()
    async with (
        embedded_cluster(fleet(2, gpus=2)) as cluster,
        consolidating_scheduler(cluster, DEFAULTS, registry=registry),
    ):
        client = cluster.client("tester")
        names = [f"p{number}" for number in range(12)]
        for number, name in enumerate(names):
            await run_instance(client, name, ("1g.10gb", "2g.20gb", "3g.40gb")[number % 3])
        for name in names[1::2]:
            await client.delete(REPLICA_SETS, name, "default")
        await allow_eviction(client)
        await advance_time(3600)
        assert count_rebalances(registry, "completed") > 0
        pods = await list_pods(client)
        await advance_time(2 * 3600)
        assert await list_pods(client) == pods
        await assert_no_double_allocation(client)


async def list_pods(client: Client) -> set[str]:
    return {each["metadata"]["uid"] for each in (await client.list(PODS, "default")).items}


async def test_moves_wait_for_the_interval() -> None:
    async with (
        embedded_cluster(fleet(1, gpus=2)) as cluster,
        consolidating_scheduler(cluster, DEFAULTS),
    ):
        client = cluster.client("tester")
        await allow_eviction(client)
        _, small = await create_fragmented_gpus(client)
        await advance_time(240)
        assert await read_devices(client, "small") == small
        await wait_for_devices(client, "small", other_than=small)


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
async def test_all_pods_are_placed_after_a_crash_at_any_write(last_arrives: bool) -> None:
    async with embedded_cluster(fleet(1, gpus=2)) as cluster:
        client = cluster.client("tester")
        async with consolidating_scheduler(cluster, DEFAULTS):
            await create_fragmented_gpus(client)
            await client.create(PODS, request_instance(pod("big"), "7g.80gb"), "default")
            await advance_time(400)
        await allow_eviction(client)
        task = asyncio.create_task(run_until_crash(cluster, DEFAULTS, last_arrives=last_arrives))
        try:
            await wait_for_condition(are_all_placed(client, ["big"]), within=6000)
            await wait_for_devices(client, "small")
            await wait_for_devices(client, "large")
        finally:
            task.cancel()
            await asyncio.wait({task})
        await assert_no_double_allocation(client)
