"""Victims that take long to terminate: nobody else is evicted, and they block nothing else."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.local.cluster import Cluster
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import NODES, PODS, eventually, settle, virtual_time
from tests.scheduler.faults import assert_nothing_twice, hold, nominated
from tests.scheduler.scheduling import (
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

PATIENCE = 40.0
SETTINGS = Settings(patience=PATIENCE)


@asynccontextmanager
async def held_victims(nodes: int, victims: int) -> AsyncGenerator[tuple[Cluster, Client]]:
    """Nodes of which some are full of a pod that is not gone when it is deleted."""
    async with a_cluster(fleet(nodes)) as cluster:
        client = cluster.client("tester")
        await make_priority(client, "high", 1000)
        for index in range(victims):
            body = pod(f"low-{index}", 8, nodeName=f"node-{index}")
            await client.create(PODS, body, "default")
            await hold(client, f"low-{index}")
        await settle(5)
        yield cluster, client


async def terminating(client: Client) -> list[str]:
    listing = await client.list(PODS, "default")
    return [
        each["metadata"]["name"]
        for each in listing.items
        if "deletionTimestamp" in each["metadata"]
    ]


async def message_of(client: Client, name: str) -> str:
    found: dict[str, Any] = await client.get(PODS, name, "default")
    conditions = found.get("status", {}).get("conditions", [])
    return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")


async def cordon(client: Client, node: str) -> None:
    await client.patch(NODES, node, {"spec": {"unschedulable": True}})


async def add_node(client: Client, like: str, name: str, gpus: int = 8) -> None:
    """A node as another is."""
    found: dict[str, Any] = await client.get(NODES, like)
    labels = {**found["metadata"]["labels"], "kubernetes.io/hostname": name}
    gpus_now = {"nvidia.com/gpu": str(gpus)}
    body = {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "allocatable": {**found["status"]["allocatable"], **gpus_now},
            "capacity": {**found["status"]["capacity"], **gpus_now},
            "conditions": found["status"]["conditions"],
        },
    }
    await client.create(NODES, body)
    await client.patch(NODES, name, {"status": body["status"]}, subresource="status")


@pytest.mark.parametrize("lasts", [3 * PATIENCE, 20 * PATIENCE], ids=["slow", "overdue"])
async def test_one_victim_is_enough_however_long_it_takes(lasts: float) -> None:
    async with held_victims(4, 4) as (cluster, client), scheduler_on(cluster, SETTINGS):
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await settle(lasts)
        evicted = await terminating(client)
        assert len(evicted) == 1
        assert await message_of(client, "chief") != ""
        await hold(client, evicted[0], held=False)
        await eventually(all_placed(client, ["chief"]))
        await assert_nothing_twice(client)


async def test_one_victim_is_enough_for_schedulers_one_after_the_other() -> None:
    async with held_victims(3, 3) as (cluster, client):
        async with scheduler_on(cluster, SETTINGS):
            await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
            await settle(PATIENCE * 1.2)
        async with scheduler_on(cluster, SETTINGS):
            await settle(PATIENCE / 4)
            (evicted,) = await terminating(client)
            await hold(client, evicted, held=False)
            await eventually(all_placed(client, ["chief"]))


async def test_a_gang_that_waits_says_so_and_keeps_its_claim() -> None:
    async with held_victims(1, 1) as (cluster, client), scheduler_on(cluster, SETTINGS):
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await settle(PATIENCE * 1.5)
        assert await nominated(client, "chief") == "node-0"
        expected = "waiting for 1 pod to terminate: default/low-0"
        assert await message_of(client, "chief") == expected
        await client.create(PODS, pod("rival", 8, priorityClassName="high"), "default")
        await settle(5)
        await hold(client, "low-0", held=False)
        await eventually(all_placed(client, ["chief"]))
        assert (await nodes_of(client))["rival"] == ""


@pytest.mark.parametrize("waited", [PATIENCE * 1.5, PATIENCE * 8], ids=["slow", "overdue"])
async def test_a_gang_does_not_wait_when_it_fits_elsewhere(waited: float) -> None:
    async with held_victims(2, 2) as (cluster, client), scheduler_on(cluster, SETTINGS):
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await settle(waited)
        (evicted,) = await terminating(client)
        await add_node(client, "node-0", "new")
        await eventually(all_placed(client, ["chief"]))
        assert (await nodes_of(client))["chief"] == "new"
        await client.create(PODS, pod("next", 8), "default")
        await settle(30)
        assert (await nodes_of(client))["next"] == ""
        await hold(client, evicted, held=False)
        await eventually(all_placed(client, ["next"]))
        await assert_nothing_twice(client)
        assert await terminating(client) == []


async def test_an_overdue_victim_does_not_block_the_rest_of_what_its_gang_wanted() -> None:
    async with held_victims(2, 1) as (cluster, client), scheduler_on(cluster, SETTINGS):
        names = await create_gang(client, "chief", 2, gpus=8, priorityClassName="high")
        await settle(PATIENCE / 2)
        await client.create(PODS, pod("next", 8), "default")
        await settle(PATIENCE / 4)
        assert (await nodes_of(client))["next"] == "", "the gang has a claim to it"
        await eventually(all_placed(client, ["next"]), within=PATIENCE * 6)
        assert (await nodes_of(client))["next"] == "node-1"
        await settle(60)
        assert await terminating(client) == ["low-0"]
        await hold(client, "low-0", held=False)
        await eventually(all_placed(client, names), within=120)
        await assert_nothing_twice(client)


async def test_new_pods_are_not_sent_to_wait_for_an_overdue_victim() -> None:
    async with held_victims(2, 1) as (cluster, client), scheduler_on(cluster, SETTINGS):
        await cordon(client, "node-1")
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await settle(PATIENCE * 8)
        await client.patch(NODES, "node-1", {"spec": {"unschedulable": None}})
        await eventually(all_placed(client, ["chief"]))
        await client.delete(PODS, "chief", "default", grace=0)
        await client.create(PODS, pod("next", 8), "default")
        await eventually(all_placed(client, ["next"]), within=5)
        assert (await nodes_of(client))["next"] == "node-1"


@pytest.mark.parametrize("waited", [PATIENCE * 1.5, PATIENCE * 8], ids=["slow", "overdue"])
async def test_when_the_node_of_a_victim_will_not_do_others_may_be_evicted(waited: float) -> None:
    async with held_victims(2, 2) as (cluster, client), scheduler_on(cluster, SETTINGS):
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await settle(waited)
        (first,) = await terminating(client)
        other = "low-1" if first == "low-0" else "low-0"
        await hold(client, other, held=False)
        await cordon(client, (await nodes_of(client))[first])
        await eventually(all_placed(client, ["chief"]), within=120)
        await assert_nothing_twice(client)


@pytest.mark.parametrize("sizes", [(4, 4), (8,)], ids=["own-victims", "one-victim"])
async def test_a_gang_that_fits_elsewhere_leaves_the_claims_of_others_alone(
    sizes: tuple[int, ...],
) -> None:
    victims = [
        *((f"low-{n}", size, "node-0") for n, size in enumerate(sizes)),
        ("big", 8, "node-1"),
    ]
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        await make_priority(client, "high", 1000)
        await make_priority(client, "middle", 500)
        for name, gpus, node in victims:
            more = {"priorityClassName": "middle"} if name == "big" else {}
            await client.create(PODS, pod(name, gpus, nodeName=node, **more), "default")
            await hold(client, name)
        await settle(5)
        async with scheduler_on(cluster, SETTINGS):
            await client.create(PODS, pod("a", 4, priorityClassName="high"), "default")
            await settle(5)
            await client.create(PODS, pod("b", 4, priorityClassName="high"), "default")
            await settle(PATIENCE * 1.5)
            evicted = await terminating(client)
            assert evicted == [name for name, _, node in victims if node == "node-0"]
            await add_node(client, "node-0", "new", gpus=4)
            await settle(60)
            assert await terminating(client) == evicted, "nobody else is evicted"
            nodes = await nodes_of(client)
            assert sorted((nodes["a"], nodes["b"])) == ["", "new"]
            for name in evicted:
                await hold(client, name, held=False)
            await eventually(all_placed(client, ["a", "b"]))
            await assert_nothing_twice(client)


@pytest.mark.parametrize("waited", [5, PATIENCE * 1.5], ids=["early", "late"])
async def test_pods_that_wait_lose_their_claim_and_are_not_deleted(waited: float) -> None:
    async with held_victims(2, 2) as (cluster, client), scheduler_on(cluster, SETTINGS):
        await make_priority(client, "top", 2000)
        await cordon(client, "node-1")
        await client.create(PODS, pod("middle", 8, priorityClassName="high"), "default")
        await settle(waited)
        assert await nominated(client, "middle") == "node-0"
        await client.create(PODS, pod("chief", 8, priorityClassName="top"), "default")
        await settle(10)
        assert (await nodes_of(client))["middle"] == ""
        assert await terminating(client) == ["low-0"]
        assert await nominated(client, "chief") == "node-0"
        await hold(client, "low-0", held=False)
        await eventually(all_placed(client, ["chief"]))
        assert (await nodes_of(client))["middle"] == ""
        await settle(PATIENCE)
        assert await nominated(client, "middle") == ""
        await client.delete(PODS, "chief", "default")
        await eventually(all_placed(client, ["middle"]), within=120)
        await assert_nothing_twice(client)


async def test_a_gang_that_loses_a_claim_gives_the_rest_back() -> None:
    async with held_victims(2, 1) as (cluster, client), scheduler_on(cluster, SETTINGS):
        await make_priority(client, "top", 2000)
        names = await create_gang(client, "middle", 2, gpus=8, priorityClassName="high")
        await settle(5)
        only_there = {"kubernetes.io/hostname": "node-0"}
        body = pod("chief", 8, priorityClassName="top", nodeSelector=only_there)
        await client.create(PODS, body, "default")
        await client.create(PODS, pod("next", 8), "default")
        await eventually(all_placed(client, ["next"]), within=PATIENCE * 2)
        nodes = await nodes_of(client)
        assert [nodes[name] for name in names] == ["", ""]
        assert await terminating(client) == ["low-0"]


async def test_a_new_pod_of_the_same_name_knows_nothing_of_overdue_victims() -> None:
    async with held_victims(2, 2) as (cluster, client), scheduler_on(cluster, SETTINGS):
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await settle(PATIENCE * 8)
        (first,) = await terminating(client)
        other = "low-1" if first == "low-0" else "low-0"
        await hold(client, other, held=False)
        await client.delete(PODS, "chief", "default", grace=0)
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await eventually(all_placed(client, ["chief"]), within=120)
        await assert_nothing_twice(client)
