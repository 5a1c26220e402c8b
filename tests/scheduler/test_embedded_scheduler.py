"""The scheduler that lives in an embedded cluster places plain pods: in virtual time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from kilonova.kube import Client, Conflict
from kilonova.kube.resource import plain
from kilonova.local.nodes.fleet import Fleet, Gpu, NodeGroup
from tests.local.embedded_cluster import EVENTS, NODES, PODS, eventually, find, pod, running, settle

pytestmark = pytest.mark.looptime


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Two nodes of four CPUs and one GPU."""
    group = NodeGroup("n", 2, cpu=4, memory="8Gi", gpu=Gpu("L4", 1, "24Gi"), stop="1s")
    async with running(fleet=Fleet(nodes=(group,))) as cluster:
        yield cluster.client("test")


async def node_of(client: Client, name: str) -> str:
    found = await find(client, PODS, name)
    return found["spec"].get("nodeName", "") if found else ""


async def placed(client: Client, name: str) -> str:
    async def has_node() -> bool:
        return bool(await node_of(client, name))

    await eventually(has_node)
    return await node_of(client, name)


def scheduled(pod: Any) -> Any:
    conditions = pod["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), None)


async def test_a_pod_that_fits_nowhere_says_so_and_waits_for_room(client: Client) -> None:
    for name in ("a", "b", "c"):
        await client.create(PODS, pod(name, requests={"cpu": "3"}), "default")
    assert {await placed(client, "a"), await placed(client, "b")} == {"n-0", "n-1"}
    await settle()
    waiting = await find(client, PODS, "c")
    condition = scheduled(waiting)
    assert condition["lastTransitionTime"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "Unschedulable",
        "3 more cpu are needed. 0/2 nodes are available: 2 Insufficient cpu. "
        "Smallest change: free 3 cpu on node n-0, now used by pod/default/a. "
        "Expected start: 2026-05-01T00:12:00Z.",
    )
    await client.delete(PODS, "a", "default")
    assert await placed(client, "c")
    assert scheduled(await find(client, PODS, "c"))["status"] == "True"


async def test_a_pod_that_has_ended_makes_room(client: Client) -> None:
    once: Any = {
        "restartPolicy": "Never",
        "metadata": {"annotations": {"sim.kilonova.dev/run-seconds": "5"}},
    }
    for name in ("a", "b"):
        await client.create(PODS, pod(name, requests={"cpu": "4"}, **dict(once)), "default")
    await client.create(PODS, pod("c", requests={"cpu": "4"}), "default")
    assert await placed(client, "c")


async def test_a_new_node_takes_who_waits(client: Client) -> None:
    await client.create(PODS, pod("big", requests={"cpu": "100"}), "default")
    await settle()
    assert not await node_of(client, "big")
    node = {
        "metadata": {"name": "new"},
        "status": {
            "allocatable": {"cpu": "128", "memory": "1Ti", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    await client.create(NODES, node)
    assert await placed(client, "big") == "new"


async def test_nothing_is_written_while_nothing_changes(client: Client) -> None:
    await client.create(PODS, pod("big", requests={"cpu": "100"}), "default")
    await settle()
    version = (await find(client, PODS, "big"))["metadata"]["resourceVersion"]
    await client.patch(NODES, "n-0", {"metadata": {"labels": {"a": "b"}}})
    await settle()
    assert (await find(client, PODS, "big"))["metadata"]["resourceVersion"] == version


async def test_gates_and_other_schedulers_are_respected(client: Client) -> None:
    await client.create(PODS, pod("gated", schedulingGates=[{"name": "example.com/g"}]), "default")
    await client.create(PODS, pod("other", schedulerName="another"), "default")
    await settle()
    assert not await node_of(client, "gated")
    assert not await node_of(client, "other")
    await client.patch(PODS, "gated", {"spec": {"schedulingGates": None}}, "default")
    assert await placed(client, "gated")


async def test_a_cordoned_node_takes_nothing_until_it_is_uncordoned(client: Client) -> None:
    for name in ("n-0", "n-1"):
        await client.patch(NODES, name, {"spec": {"unschedulable": True}})
    await client.create(PODS, pod("p"), "default")
    await settle()
    assert not await node_of(client, "p")
    await client.patch(NODES, "n-1", {"spec": {"unschedulable": None}})
    assert await placed(client, "p") == "n-1"


async def test_who_was_placed_by_others_counts(client: Client) -> None:
    await client.create(PODS, pod("mine", requests={"cpu": "4"}, nodeName="n-0"), "default")
    await client.create(PODS, pod("theirs", requests={"cpu": "4"}, schedulerName="x"), "default")
    await client.bind("theirs", "default", "n-1")
    await client.create(PODS, pod("late", requests={"cpu": "1"}), "default")
    await settle()
    assert not await node_of(client, "late")


async def test_a_crowd_at_once_is_placed_without_over_commitment(client: Client) -> None:
    await asyncio.gather(
        *(client.create(PODS, pod(f"p{n}", requests={"cpu": "1"}), "default") for n in range(12))
    )
    await settle()
    pods = (await client.list(PODS, "default")).items
    nodes = Counter(each["spec"].get("nodeName", "") for each in pods)
    assert nodes == {"n-0": 4, "n-1": 4, "": 4}


async def test_two_schedulers_that_race_do_not_confuse_the_count(client: Client) -> None:
    """Somebody else binds the very pods that are being placed, elsewhere."""

    async def race(name: str) -> None:
        await client.create(PODS, pod(name, requests={"cpu": "1"}), "default")
        with suppress(Conflict):  # it was quicker
            await client.bind(name, "default", "n-0")

    await asyncio.gather(*(race(f"p{n}") for n in range(4)))
    await asyncio.gather(
        *(client.create(PODS, pod(f"q{n}", requests={"cpu": "1"}), "default") for n in range(8))
    )
    await settle()
    pods = (await client.list(PODS, "default")).items
    nodes = Counter(each["spec"].get("nodeName", "") for each in pods)
    assert nodes == {"n-0": 4, "n-1": 4, "": 4}


async def test_events_tell_where_pods_went_and_why_another_waits(client: Client) -> None:
    for name in ("a", "b", "c"):
        await client.create(PODS, pod(name, requests={"cpu": "3"}), "default")

    async def told() -> bool:
        events = (await client.list(EVENTS, "default")).items
        reasons = Counter(each["reason"] for each in events)
        return reasons == {"Scheduled": 2, "FailedScheduling": 1}

    await eventually(told)


async def test_the_overhead_of_a_runtime_class_takes_room_on_the_nodes_that_it_selects(
    client: Client,
) -> None:
    await client.create(
        plain("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
        {
            "metadata": {"name": "sandboxed"},
            "handler": "sandbox",
            "overhead": {"podFixed": {"cpu": "1500m"}},
            "scheduling": {"nodeSelector": {"kubernetes.io/hostname": "n-1"}},
        },
    )
    asked = {"requests": {"cpu": "1500m"}, "runtimeClassName": "sandboxed"}
    await client.create(PODS, pod("a", **asked), "default")
    assert await placed(client, "a") == "n-1"
    await client.create(PODS, pod("b", **asked), "default")
    await settle()
    condition = scheduled(await find(client, PODS, "b"))
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert "1 Insufficient cpu" in condition["message"]
    await client.delete(PODS, "a", "default")
    assert await placed(client, "b") == "n-1"
