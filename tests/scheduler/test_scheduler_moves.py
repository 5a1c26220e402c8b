"""Pods that are moved so that nodes become free."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from kilonova.kube import Client
from kilonova.kube.resource import plain
from kilonova.scheduler.movelimits import MoveLimits
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import (
    CONFIG_MAPS,
    EVENTS,
    PODS,
    eventually,
    gone,
    settle,
    virtual_time,
)
from tests.scheduler.faults import assert_nothing_twice
from tests.scheduler.moving import (
    MOVING,
    REPLICA_SETS,
    fragmented,
    halves,
    mover_on,
    nodes_of_set,
    owned_pod,
    placed,
    run_set,
)
from tests.scheduler.scheduling import GANGS, a_cluster, all_placed, fleet, gang, nodes_of, pod

pytestmark = virtual_time

BUDGETS = plain("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)


async def test_a_pod_moves_so_that_a_node_becomes_empty() -> None:
    registry = CollectorRegistry()
    async with a_cluster(fleet(2)) as cluster, mover_on(cluster, registry=registry):
        client = cluster.client("tester")
        full, alone = await fragmented(client)
        assert await placed(client, "small", other_than=alone) == full
        await assert_nothing_twice(client)
        for outcome in ("begun", "returned"):
            labels = {"outcome": outcome}
            assert registry.get_sample_value("kilonova_scheduler_moves_total", labels) == 1
        events = (await client.list(EVENTS, "default")).items
        told = [each["message"] for each in events if each["reason"] == "Moved"]
        assert told == [f"moves, so that nodes become free; room is held on {full}"]


@pytest.mark.parametrize(
    "settings",
    [Settings(), Settings(moves=MoveLimits(every=10, arrivals_each=100))],
    ids=["nobody said so", "too few pods arrived"],
)
async def test_nothing_moves_unless_it_is_allowed(settings: Settings) -> None:
    async with a_cluster(fleet(2)) as cluster, mover_on(cluster, settings):
        client = cluster.client("tester")
        _, alone = await fragmented(client)
        await settle(600)
        assert await nodes_of_set(client, "small") == [alone]


async def test_who_may_not_be_preempted_stays() -> None:
    async with a_cluster(fleet(2)) as cluster, mover_on(cluster):
        client = cluster.client("tester")
        keeps = {"scheduling.kilonova.dev/preemptible": "false"}
        _, alone = await fragmented(client, **keeps)
        await settle(600)
        assert await nodes_of_set(client, "small") == [alone]


async def test_pods_that_a_disruption_budget_guards_stay() -> None:
    async with a_cluster(fleet(2)) as cluster, mover_on(cluster):
        client = cluster.client("tester")
        guarded = {"key": "app", "operator": "In", "values": ["small", "large", "leaving"]}
        budget = {
            "metadata": {"name": "stay"},
            "spec": {"maxUnavailable": 0, "selector": {"matchExpressions": [guarded]}},
        }
        await client.create(BUDGETS, budget, "default")
        full, alone = await fragmented(client)
        await settle(300)
        assert await nodes_of_set(client, "small") == [alone]
        await client.delete(BUDGETS, "stay", "default")
        assert await placed(client, "small", other_than=alone) == full


async def test_a_pod_that_nobody_would_make_again_stays() -> None:
    async with a_cluster(fleet(2)) as cluster, mover_on(cluster):
        client = cluster.client("tester")
        await run_set(client, "large", 6)
        await run_set(client, "leaving", 6)
        await client.create(PODS, pod("bare", 2), "default")
        await eventually(all_placed(client, ["bare"]))
        node = (await nodes_of(client))["bare"]
        beside = "large" if [node] == await nodes_of_set(client, "large") else "leaving"
        await client.delete(REPLICA_SETS, beside, "default")
        await settle(300)
        assert (await nodes_of(client))["bare"] == node


async def test_a_pod_that_waits_gets_room_and_nobody_loses_theirs() -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        async with mover_on(cluster, Settings()):
            await halves(client)
            await client.create(PODS, pod("big", 8), "default")
            await settle(100)
            assert (await nodes_of(client))["big"] == ""
        async with mover_on(cluster):
            await eventually(all_placed(client, ["big"]), within=120)
            left, right = await placed(client, "left"), await placed(client, "right")
            assert left == right != (await nodes_of(client))["big"]
            await assert_nothing_twice(client)


async def test_a_gang_moves_as_a_whole() -> None:
    async with a_cluster(fleet(2)) as cluster, mover_on(cluster):
        client = cluster.client("tester")
        owner = await client.create(CONFIG_MAPS, {"metadata": {"name": "owner"}}, "default")
        full = await run_set(client, "large", 4)
        await run_set(client, "filler", 4)
        await make_gang(client, owner, ["w0", "w1"])
        await client.delete(REPLICA_SETS, "filler", "default")
        await gone(client, PODS, "w0")
        await gone(client, PODS, "w1")
        await client.create(PODS, pod("thief", 4), "default")
        await eventually(all_placed(client, ["thief"]))
        await make_gang(client, owner, ["w2", "w3"])
        nodes = await nodes_of(client)
        assert {nodes["w2"], nodes["w3"]} == {full}
        assert nodes["thief"] != full


async def test_room_that_nobody_comes_back_for_is_free_again() -> None:
    settings = Settings(moves=MoveLimits(every=10, return_within=60), patience=30)
    async with a_cluster(fleet(2)) as cluster, mover_on(cluster, settings) as scheduler:
        client = cluster.client("tester")
        owner = await client.create(CONFIG_MAPS, {"metadata": {"name": "owner"}}, "default")
        full = await run_set(client, "large", 4)
        await run_set(client, "filler", 4)
        await make_gang(client, owner, ["w0", "w1"])
        await client.delete(REPLICA_SETS, "filler", "default")
        await gone(client, PODS, "w0")
        await gone(client, PODS, "w1")
        snapshot = scheduler.world.cluster.snapshot
        row, gpus = snapshot.row(full), snapshot.column("nvidia.com/gpu")
        assert snapshot.free[gpus, row] == 0
        await settle(61)
        assert snapshot.free[gpus, row] == 4
        assert "default/g" not in scheduler.world.cluster.standing


async def test_a_cluster_at_rest_is_left_alone() -> None:
    async with a_cluster(fleet(2)) as cluster, mover_on(cluster, MOVING) as scheduler:
        client = cluster.client("tester")
        full, alone = await fragmented(client)
        await placed(client, "small", other_than=alone)
        await settle(300)
        pods = {each["metadata"]["uid"] for each in (await client.list(PODS, "default")).items}
        changes = scheduler.world.cluster.snapshot.changes.position
        await settle(3000)
        left = {each["metadata"]["uid"] for each in (await client.list(PODS, "default")).items}
        assert left == pods
        assert scheduler.world.cluster.snapshot.changes.position == changes
        assert await nodes_of_set(client, "small") == [full]


async def make_gang(client: Client, owner: Any, names: list[str]) -> None:
    """What an operator does: makes the pods of a gang anew, and lists them."""
    for name in names:
        await client.create(PODS, owned_pod(owner, name, 2, of="g"), "default")
    await client.apply(GANGS, "g", gang("g", {"w": names}), "default", manager="operator")
    await eventually(all_placed(client, names))
