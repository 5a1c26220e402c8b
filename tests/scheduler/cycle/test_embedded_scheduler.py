"""The scheduler of an embedded cluster schedules plain pods, in virtual time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from kilonova.kube import Client, Conflict
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.simnodes.fleet.model import Fleet, GpuSpec, NodeGroup
from tests.local.embedded_cluster import (
    EVENTS,
    NODES,
    PODS,
    advance_time,
    find,
    pod,
    run_cluster,
    virtual_time,
    wait_for_condition,
)

pytestmark = virtual_time


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Two nodes of four CPUs and one GPU."""
    group = NodeGroup("n", 2, cpu=4, memory="8Gi", gpu=GpuSpec("L4", 1, "24Gi"), stop="1s")
    async with run_cluster(fleet=Fleet(nodes=(group,))) as cluster:
        yield cluster.client("test")


async def node_of(client: Client, name: str) -> str:
    found = await find(client, PODS, name)
    return found["spec"].get("nodeName", "") if found else ""


async def is_placed(client: Client, name: str) -> str:
    async def has_node() -> bool:
        return bool(await node_of(client, name))

    await wait_for_condition(has_node)
    return await node_of(client, name)


def scheduled_condition(pod: Any) -> Any:
    conditions = pod["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), None)


async def test_unschedulable_pod_reports_it_and_waits_for_capacity(client: Client) -> None:
    for name in ("a", "b", "c"):
        await client.create(PODS, pod(name, requests={"cpu": "3"}), "default")
    assert {await is_placed(client, "a"), await is_placed(client, "b")} == {"n-0", "n-1"}
    await advance_time()
    waiting = await find(client, PODS, "c")
    condition = scheduled_condition(waiting)
    assert condition["lastTransitionTime"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "Unschedulable",
        "3 more cpu are needed. 0/2 nodes are available: 2 Insufficient cpu. "
        "Smallest change: free 3 cpu on node n-0, now used by pod/default/a. "
        "Expected start: 2026-05-01T00:12:00Z.",
    )
    await client.delete(PODS, "a", "default")
    assert await is_placed(client, "c")
    assert scheduled_condition(await find(client, PODS, "c"))["status"] == "True"


async def test_finished_pod_frees_its_capacity(client: Client) -> None:
    once: Any = {
        "restartPolicy": "Never",
        "metadata": {"annotations": {"sim.kilonova.dev/run-seconds": "5"}},
    }
    for name in ("a", "b"):
        await client.create(PODS, pod(name, requests={"cpu": "4"}, **dict(once)), "default")
    await client.create(PODS, pod("c", requests={"cpu": "4"}), "default")
    assert await is_placed(client, "c")


async def test_new_node_gets_pending_pods(client: Client) -> None:
    await client.create(PODS, pod("big", requests={"cpu": "100"}), "default")
    await advance_time()
    assert not await node_of(client, "big")
    node = {
        "metadata": {"name": "new"},
        "status": {
            "allocatable": {"cpu": "128", "memory": "1Ti", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    await client.create(NODES, node)
    assert await is_placed(client, "big") == "new"


async def test_nothing_is_written_while_nothing_changes(client: Client) -> None:
    await client.create(PODS, pod("big", requests={"cpu": "100"}), "default")
    await advance_time()
    version = (await find(client, PODS, "big"))["metadata"]["resourceVersion"]
    await client.patch(NODES, "n-0", {"metadata": {"labels": {"a": "b"}}})
    await advance_time()
    assert (await find(client, PODS, "big"))["metadata"]["resourceVersion"] == version


async def test_gates_and_other_schedulers_are_respected(client: Client) -> None:
    await client.create(PODS, pod("gated", schedulingGates=[{"name": "example.com/g"}]), "default")
    await client.create(PODS, pod("other", schedulerName="another"), "default")
    await advance_time()
    assert not await node_of(client, "gated")
    assert not await node_of(client, "other")
    await client.patch(PODS, "gated", {"spec": {"schedulingGates": None}}, "default")
    assert await is_placed(client, "gated")


async def test_cordoned_node_gets_no_pods_until_it_is_uncordoned(client: Client) -> None:
    for name in ("n-0", "n-1"):
        await client.patch(NODES, name, {"spec": {"unschedulable": True}})
    await client.create(PODS, pod("p"), "default")
    await advance_time()
    assert not await node_of(client, "p")
    await client.patch(NODES, "n-1", {"spec": {"unschedulable": None}})
    assert await is_placed(client, "p") == "n-1"


async def test_pods_bound_by_other_schedulers_count(client: Client) -> None:
    await client.create(PODS, pod("mine", requests={"cpu": "4"}, nodeName="n-0"), "default")
    await client.create(PODS, pod("theirs", requests={"cpu": "4"}, schedulerName="x"), "default")
    await client.bind("theirs", "default", "n-1")
    await client.create(PODS, pod("late", requests={"cpu": "1"}), "default")
    await advance_time()
    assert not await node_of(client, "late")


async def test_many_pods_at_once_are_placed_without_overcommitment(client: Client) -> None:
    await asyncio.gather(
        *(client.create(PODS, pod(f"p{n}", requests={"cpu": "1"}), "default") for n in range(12))
    )
    await advance_time()
    pods = (await client.list(PODS, "default")).items
    nodes = Counter(each["spec"].get("nodeName", "") for each in pods)
    assert nodes == {"n-0": 4, "n-1": 4, "": 4}


async def test_racing_schedulers_do_not_corrupt_the_cache(client: Client) -> None:
    """Another scheduler binds the same pods to other nodes."""

    async def race(name: str) -> None:
        await client.create(PODS, pod(name, requests={"cpu": "1"}), "default")
        with suppress(Conflict):  # our scheduler was first
            await client.bind(name, "default", "n-0")

    await asyncio.gather(*(race(f"p{n}") for n in range(4)))
    await asyncio.gather(
        *(client.create(PODS, pod(f"q{n}", requests={"cpu": "1"}), "default") for n in range(8))
    )
    await advance_time()
    pods = (await client.list(PODS, "default")).items
    nodes = Counter(each["spec"].get("nodeName", "") for each in pods)
    assert nodes == {"n-0": 4, "n-1": 4, "": 4}


async def test_events_report_nodes_and_unschedulable_reasons(client: Client) -> None:
    for name in ("a", "b", "c"):
        await client.create(PODS, pod(name, requests={"cpu": "3"}), "default")

    async def is_reported() -> bool:
        events = (await client.list(EVENTS, "default")).items
        reasons = Counter(each["reason"] for each in events)
        return reasons == {"Scheduled": 2, "FailedScheduling": 1}

    await wait_for_condition(is_reported)


async def test_runtime_class_overhead_counts_on_the_selected_nodes(
    client: Client,
) -> None:
    await client.create(
        unstructured_resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
        {
            "metadata": {"name": "sandboxed"},
            "handler": "sandbox",
            "overhead": {"podFixed": {"cpu": "1500m"}},
            "scheduling": {"nodeSelector": {"kubernetes.io/hostname": "n-1"}},
        },
    )
    resources = {"requests": {"cpu": "1500m"}, "runtimeClassName": "sandboxed"}
    await client.create(PODS, pod("a", **resources), "default")
    assert await is_placed(client, "a") == "n-1"
    await client.create(PODS, pod("b", **resources), "default")
    await advance_time()
    condition = scheduled_condition(await find(client, PODS, "b"))
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    assert "1 Insufficient cpu" in condition["message"]
    await client.delete(PODS, "a", "default")
    assert await is_placed(client, "b") == "n-1"
