"""Pods that no kubelet will delete."""

import asyncio
from typing import Any

import pytest

from kilonova.api.meta import Condition, Metadata
from kilonova.local.controllers.pod_gc import select_stuck_terminating, select_terminated_surplus
from kilonova.local.objects.core import (
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    Taint,
)
from tests.local.embedded_cluster import NODES, PODS, find, pod, run_cluster, virtual_time

pytestmark = virtual_time


CONTROLLERS = "*,-node-lifecycle-controller"


async def test_pods_of_a_deleted_node_fail_and_are_deleted() -> None:
    async with run_cluster(controllers=CONTROLLERS) as cluster:
        client = cluster.client("test")
        await client.create(PODS, pod("lost", nodeName="ghost"), "default")
        kept = {"metadata": {"finalizers": ["example.com/kept"]}}
        await client.create(PODS, pod("kept", nodeName="ghost", **kept), "default")
        await asyncio.sleep(35)
        assert await find(client, PODS, "lost") is not None
        await asyncio.sleep(60)
        assert await find(client, PODS, "lost") is None
        left = await find(client, PODS, "kept")
        assert left["status"]["phase"] == "Failed"
        (condition,) = [
            each for each in left["status"]["conditions"] if each["type"] == "DisruptionTarget"
        ]
        assert (condition["reason"], condition["message"]) == (
            "DeletionByPodGC",
            "PodGC: node no longer exists",
        )


async def test_pods_of_a_node_that_appears_late_stay() -> None:
    async with run_cluster(controllers=CONTROLLERS) as cluster:
        client = cluster.client("test")
        await client.create(PODS, pod("early", nodeName="late"), "default")
        await asyncio.sleep(35)
        await client.create(NODES, {"metadata": {"name": "late"}})
        await asyncio.sleep(120)
        assert await find(client, PODS, "early") is not None


def ended(name: str, created: str, *, reason: str = "") -> Pod:
    metadata = Metadata(name, name, "1", creation_timestamp=created)
    return Pod(metadata, status=PodStatus("Failed", reason))


def test_terminated_pods_beyond_the_limit_are_deleted_evicted_ones_first() -> None:
    pods = [
        ended("new", "2026-05-03T00:00:00Z"),
        ended("old", "2026-05-01T00:00:00Z"),
        ended("evicted", "2026-05-04T00:00:00Z", reason="Evicted"),
        Pod(Metadata("runs", "r", "1"), status=PodStatus("Running")),
    ]
    assert [each.metadata.name for each in select_terminated_surplus(pods, 1)] == ["evicted", "old"]
    assert select_terminated_surplus(pods, 3) == []


def node(*taints: Taint, ready: bool) -> Node:
    condition = Condition("Ready", "True" if ready else "False")
    return Node(Metadata("n", "n", "1"), NodeSpec(taints), NodeStatus((condition,)))


OUT = Taint("node.kubernetes.io/out-of-service", "NoExecute")


@pytest.mark.parametrize(
    ("spec", "terminating", "place", "is_stuck"),
    [
        (PodSpec(), True, node(ready=True), True),
        (PodSpec(), False, node(ready=True), False),
        (PodSpec("n"), True, node(ready=True), False),
        (PodSpec("n"), True, node(OUT, ready=False), True),
        (PodSpec("n"), True, node(OUT, ready=True), False),
        (PodSpec("n"), False, node(OUT, ready=False), False),
    ],
)
def test_which_terminating_pods_are_stuck(
    spec: Any, terminating: bool, place: Node, is_stuck: bool
) -> None:
    mark = "2026-05-01T00:00:00Z" if terminating else None
    found = Pod(Metadata("p", "p", "1", deletion_timestamp=mark), spec)
    assert bool(select_stuck_terminating([found], {"n": place})) is is_stuck
