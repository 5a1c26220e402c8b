"""Victims that terminate slowly: no other pod is evicted, and they block nothing else."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.local.cluster import EmbeddedCluster
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import NODES, PODS, advance_time, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    are_all_placed,
    create_gang,
    create_priority_class,
    embedded_cluster,
    fleet,
    nodes_by_pod,
    pod,
    running_scheduler,
)
from tests.scheduler.harness.fault_injection import (
    assert_no_double_allocation,
    nominated_node,
    set_slow_termination,
)

pytestmark = virtual_time

EVICTION_TIMEOUT = 40.0
SETTINGS = SchedulerSettings(eviction_timeout=EVICTION_TIMEOUT)


@asynccontextmanager
async def slow_victims(nodes: int, victims: int) -> AsyncGenerator[tuple[EmbeddedCluster, Client]]:
    """Nodes, some of them full with a pod that has a finalizer."""
    async with embedded_cluster(fleet(nodes)) as cluster:
        client = cluster.client("tester")
        await create_priority_class(client, "high", 1000)
        for index in range(victims):
            body = pod(f"low-{index}", 8, nodeName=f"node-{index}")
            await client.create(PODS, body, "default")
            await set_slow_termination(client, f"low-{index}")
        await advance_time(5)
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
    """Add a node."""
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


@pytest.mark.parametrize(
    "lasts", [3 * EVICTION_TIMEOUT, 20 * EVICTION_TIMEOUT], ids=["slow", "overdue"]
)
async def test_slow_victim_causes_no_second_eviction(lasts: float) -> None:
    async with slow_victims(4, 4) as (cluster, client), running_scheduler(cluster, SETTINGS):
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await advance_time(lasts)
        evicted = await terminating(client)
        assert len(evicted) == 1
        assert await message_of(client, "chief") != ""
        await set_slow_termination(client, evicted[0], slow=False)
        await wait_for_condition(are_all_placed(client, ["chief"]))
        await assert_no_double_allocation(client)


async def test_slow_victim_causes_no_second_eviction_after_restarts() -> None:
    async with slow_victims(3, 3) as (cluster, client):
        async with running_scheduler(cluster, SETTINGS):
            await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
            await advance_time(EVICTION_TIMEOUT * 1.2)
        async with running_scheduler(cluster, SETTINGS):
            await advance_time(EVICTION_TIMEOUT / 4)
            (evicted,) = await terminating(client)
            await set_slow_termination(client, evicted, slow=False)
            await wait_for_condition(are_all_placed(client, ["chief"]))


async def test_waiting_preemptor_reports_it_and_keeps_its_nomination() -> None:
    async with slow_victims(1, 1) as (cluster, client), running_scheduler(cluster, SETTINGS):
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await advance_time(EVICTION_TIMEOUT * 1.5)
        assert await nominated_node(client, "chief") == "node-0"
        expected = "waiting for 1 pod to terminate: default/low-0"
        assert await message_of(client, "chief") == expected
        await client.create(PODS, pod("rival", 8, priorityClassName="high"), "default")
        await advance_time(5)
        await set_slow_termination(client, "low-0", slow=False)
        await wait_for_condition(are_all_placed(client, ["chief"]))
        assert (await nodes_by_pod(client))["rival"] == ""


@pytest.mark.parametrize(
    "waited", [EVICTION_TIMEOUT * 1.5, EVICTION_TIMEOUT * 8], ids=["slow", "overdue"]
)
async def test_gang_is_placed_elsewhere_before_its_victims_terminate(waited: float) -> None:
    async with slow_victims(2, 2) as (cluster, client), running_scheduler(cluster, SETTINGS):
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await advance_time(waited)
        (evicted,) = await terminating(client)
        await add_node(client, "node-0", "new")
        await wait_for_condition(are_all_placed(client, ["chief"]))
        assert (await nodes_by_pod(client))["chief"] == "new"
        await client.create(PODS, pod("next", 8), "default")
        await advance_time(30)
        assert (await nodes_by_pod(client))["next"] == ""
        await set_slow_termination(client, evicted, slow=False)
        await wait_for_condition(are_all_placed(client, ["next"]))
        await assert_no_double_allocation(client)
        assert await terminating(client) == []


async def test_overdue_victim_does_not_block_the_other_nominated_capacity() -> None:
    async with slow_victims(2, 1) as (cluster, client), running_scheduler(cluster, SETTINGS):
        names = await create_gang(client, "chief", 2, gpus=8, priorityClassName="high")
        await advance_time(EVICTION_TIMEOUT / 2)
        await client.create(PODS, pod("next", 8), "default")
        await advance_time(EVICTION_TIMEOUT / 4)
        assert (await nodes_by_pod(client))["next"] == "", "the gang has a claim to it"
        await wait_for_condition(are_all_placed(client, ["next"]), within=EVICTION_TIMEOUT * 6)
        assert (await nodes_by_pod(client))["next"] == "node-1"
        await advance_time(60)
        assert await terminating(client) == ["low-0"]
        await set_slow_termination(client, "low-0", slow=False)
        await wait_for_condition(are_all_placed(client, names), within=120)
        await assert_no_double_allocation(client)


async def test_new_pods_are_not_nominated_to_nodes_of_overdue_victims() -> None:
    async with slow_victims(2, 1) as (cluster, client), running_scheduler(cluster, SETTINGS):
        await cordon(client, "node-1")
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await advance_time(EVICTION_TIMEOUT * 8)
        await client.patch(NODES, "node-1", {"spec": {"unschedulable": None}})
        await wait_for_condition(are_all_placed(client, ["chief"]))
        await client.delete(PODS, "chief", "default", grace_period_seconds=0)
        await client.create(PODS, pod("next", 8), "default")
        await wait_for_condition(are_all_placed(client, ["next"]), within=5)
        assert (await nodes_by_pod(client))["next"] == "node-1"


@pytest.mark.parametrize(
    "waited", [EVICTION_TIMEOUT * 1.5, EVICTION_TIMEOUT * 8], ids=["slow", "overdue"]
)
async def test_other_victims_are_evicted_when_the_node_becomes_unsuitable(waited: float) -> None:
    async with slow_victims(2, 2) as (cluster, client), running_scheduler(cluster, SETTINGS):
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await advance_time(waited)
        (first,) = await terminating(client)
        other = "low-1" if first == "low-0" else "low-0"
        await set_slow_termination(client, other, slow=False)
        await cordon(client, (await nodes_by_pod(client))[first])
        await wait_for_condition(are_all_placed(client, ["chief"]), within=120)
        await assert_no_double_allocation(client)


@pytest.mark.parametrize("sizes", [(4, 4), (8,)], ids=["own-victims", "one-victim"])
async def test_gang_that_fits_elsewhere_keeps_the_nominations_of_others(
    sizes: tuple[int, ...],
) -> None:
    victims = [
        *((f"low-{n}", size, "node-0") for n, size in enumerate(sizes)),
        ("big", 8, "node-1"),
    ]
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        await create_priority_class(client, "high", 1000)
        await create_priority_class(client, "middle", 500)
        for name, gpus, node in victims:
            more = {"priorityClassName": "middle"} if name == "big" else {}
            await client.create(PODS, pod(name, gpus, nodeName=node, **more), "default")
            await set_slow_termination(client, name)
        await advance_time(5)
        async with running_scheduler(cluster, SETTINGS):
            await client.create(PODS, pod("a", 4, priorityClassName="high"), "default")
            await advance_time(5)
            await client.create(PODS, pod("b", 4, priorityClassName="high"), "default")
            await advance_time(EVICTION_TIMEOUT * 1.5)
            evicted = await terminating(client)
            assert evicted == [name for name, _, node in victims if node == "node-0"]
            await add_node(client, "node-0", "new", gpus=4)
            await advance_time(60)
            assert await terminating(client) == evicted, "no other pod is evicted"
            nodes = await nodes_by_pod(client)
            assert sorted((nodes["a"], nodes["b"])) == ["", "new"]
            for name in evicted:
                await set_slow_termination(client, name, slow=False)
            await wait_for_condition(are_all_placed(client, ["a", "b"]))
            await assert_no_double_allocation(client)


@pytest.mark.parametrize("waited", [5, EVICTION_TIMEOUT * 1.5], ids=["early", "late"])
async def test_preempted_assumed_pods_are_not_deleted(waited: float) -> None:
    async with slow_victims(2, 2) as (cluster, client), running_scheduler(cluster, SETTINGS):
        await create_priority_class(client, "top", 2000)
        await cordon(client, "node-1")
        await client.create(PODS, pod("middle", 8, priorityClassName="high"), "default")
        await advance_time(waited)
        assert await nominated_node(client, "middle") == "node-0"
        await client.create(PODS, pod("chief", 8, priorityClassName="top"), "default")
        await advance_time(10)
        assert (await nodes_by_pod(client))["middle"] == ""
        assert await terminating(client) == ["low-0"]
        assert await nominated_node(client, "chief") == "node-0"
        await set_slow_termination(client, "low-0", slow=False)
        await wait_for_condition(are_all_placed(client, ["chief"]))
        assert (await nodes_by_pod(client))["middle"] == ""
        await advance_time(EVICTION_TIMEOUT)
        assert await nominated_node(client, "middle") == ""
        await client.delete(PODS, "chief", "default")
        await wait_for_condition(are_all_placed(client, ["middle"]), within=120)
        await assert_no_double_allocation(client)


async def test_gang_that_loses_a_nomination_releases_the_others() -> None:
    async with slow_victims(2, 1) as (cluster, client), running_scheduler(cluster, SETTINGS):
        await create_priority_class(client, "top", 2000)
        names = await create_gang(client, "middle", 2, gpus=8, priorityClassName="high")
        await advance_time(5)
        only_there = {"kubernetes.io/hostname": "node-0"}
        body = pod("chief", 8, priorityClassName="top", nodeSelector=only_there)
        await client.create(PODS, body, "default")
        await client.create(PODS, pod("next", 8), "default")
        await wait_for_condition(are_all_placed(client, ["next"]), within=EVICTION_TIMEOUT * 2)
        nodes = await nodes_by_pod(client)
        assert [nodes[name] for name in names] == ["", ""]
        assert await terminating(client) == ["low-0"]


async def test_recreated_pod_has_no_overdue_victims() -> None:
    async with slow_victims(2, 2) as (cluster, client), running_scheduler(cluster, SETTINGS):
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await advance_time(EVICTION_TIMEOUT * 8)
        (first,) = await terminating(client)
        other = "low-1" if first == "low-0" else "low-0"
        await set_slow_termination(client, other, slow=False)
        await client.delete(PODS, "chief", "default", grace_period_seconds=0)
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await wait_for_condition(are_all_placed(client, ["chief"]), within=120)
        await assert_no_double_allocation(client)
