"""Queue status: figures and problems, written when they change and at most once per interval."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kilonova.api.scheduling import Queue
from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.scheduler.convert.quantities import encode_quantity
from kilonova.scheduler.convert.queues import convert_queues
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.requests import GpuRequest
from kilonova.scheduler.status.queue_figures import compute_queue_figures
from kilonova.scheduler.status.queue_status import queue_status, status_change
from tests.local.embedded_cluster import PODS, advance_time, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import fleet, pod, scheduled_cluster
from tests.scheduler.harness.snapshots import node, pending_gang

QUEUES = unstructured_resource("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.kilonova.dev/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def queue_spec(name: str, **spec: Any) -> Queue:
    body = queue(name, **spec)
    body["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": 3}
    return msgspec.convert(body, Queue)


def cluster_with(*queues: Queue) -> Cluster:
    cluster = Cluster(convert_queues(queues))
    cluster.snapshot.put_node(node("a"))
    return cluster


def in_queue(name: str, queue: str) -> Gang:
    return replace(pending_gang(name, GpuRequest(1)), queue=queue)


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"),
        ("cpu", 2000, "2"),
        ("nvidia.com/gpu", 2500, "2500m"),
        ("memory", 64 << 30, "64Gi"),
        ("ephemeral-storage", 1536, "1536"),
        ("example.com/thing", 3, "3"),
    ],
)
def test_amounts_are_kubernetes_quantities(resource: str, amount: int, text: str):
    assert encode_quantity(resource, amount) == text


def test_pending_gangs_of_child_queues_count_in_the_parent():
    cluster = cluster_with(
        queue_spec("top"), queue_spec("a", parent="top"), queue_spec("b", parent="top")
    )
    pending = [in_queue("x", "a"), in_queue("y", "a"), in_queue("z", "b")]
    figures = compute_queue_figures(cluster, pending)
    assert [figures[name].pending for name in ("top", "a", "b", "default")] == [3, 2, 1, 0]
    assert figures["top"].requested == {"cpu": 3000, "nvidia.com/gpu": 3000}
    assert figures["top"].allocated == {}
    assert figures["top"].fair_share["nvidia.com/gpu"] == 2000


def test_status_is_written_once_and_keeps_its_transition_time():
    one = queue_spec("a", limit={"nvidia.com/gpu": 1})
    cluster = cluster_with(one)
    status = queue_status("a", compute_queue_figures(cluster, [])["a"], cluster.forest, 3)
    change = status_change(one, status, NOW)
    assert change is not None
    written = msgspec.convert({**msgspec.to_builtins(one), "status": change}, Queue)
    assert status_change(written, status, NOW) is None
    busier = queue_status(
        "a", compute_queue_figures(cluster, [in_queue("x", "a")])["a"], cluster.forest, 3
    )
    later = status_change(written, busier, datetime(2026, 5, 2, tzinfo=UTC))
    assert later is not None
    assert later["pendingGangs"] == 1
    assert later["conditions"][0]["lastTransitionTime"] == "2026-05-01T00:00:00Z"


@pytest.mark.parametrize(
    ("queues", "status", "reason", "message"),
    [
        ([queue_spec("a")], "True", "QueueReady", "gangs of this queue are scheduled"),
        ([queue_spec("a", parent="gone")], "False", "QueueParentNotFound", 'create "gone"'),
        (
            [queue_spec("a", parent="b"), queue_spec("b", parent="a")],
            "False",
            "QueueParentCycle",
            "give one of them another parent",
        ),
        (
            [queue_spec("a", parent="b"), queue_spec("b", parent="gone")],
            "False",
            "QueueParentNotReady",
            'create "gone"',
        ),
        (
            [queue_spec("a", deserved={"cpu": 4}, limit={"cpu": 2})],
            "True",
            "LimitBelowDeserved",
            "raise limit or lower deserved",
        ),
    ],
)
def test_queue_problems_are_reported_with_a_fix(
    queues: list[Queue], status: str, reason: str, message: str
):
    cluster = cluster_with(*queues)
    (condition,) = queue_status(
        "a", compute_queue_figures(cluster, [])["a"], cluster.forest
    ).conditions
    assert (condition.status, condition.reason) == (status, reason)
    assert message in condition.message


async def status_of(client: Client, name: str) -> dict[str, Any]:
    return (await client.get(QUEUES, name)).get("status", {})


@virtual_time
async def test_queue_status_reports_usage_and_pending_gangs() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(QUEUES, queue("top", limit={"nvidia.com/gpu": 6}))
        await client.create(QUEUES, queue("team", parent="top", deserved={"nvidia.com/gpu": 4}))
        for name in ("a", "b"):
            body = pod(name, 4)
            body["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = "team"
            await client.create(PODS, body, "default")

        async def is_reported() -> bool:
            status = await status_of(client, "team")
            return status.get("allocated", {}).get("nvidia.com/gpu") == "4"

        await wait_for_condition(is_reported)
        team, top = await status_of(client, "team"), await status_of(client, "top")
        assert team["requested"]["nvidia.com/gpu"] == "8"
        assert team["fairShare"]["nvidia.com/gpu"] == "6"
        assert team["pendingGangs"] == top["pendingGangs"] == 1
        assert top["allocated"] == team["allocated"]
        assert team["conditions"][0]["reason"] == "QueueReady"

        await client.delete(PODS, "b", "default")

        async def less() -> bool:
            return (await status_of(client, "team"))["pendingGangs"] == 0

        await wait_for_condition(less)
        version = (await client.get(QUEUES, "team"))["metadata"]["resourceVersion"]
        await advance_time(30)
        assert (await client.get(QUEUES, "team"))["metadata"]["resourceVersion"] == version


@virtual_time
async def test_repaired_queue_becomes_ready() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(QUEUES, queue("team", parent="gone"))

        async def is_ready(status: str) -> bool:
            found = (await status_of(client, "team")).get("conditions", [])
            return [each["status"] for each in found] == [status]

        await wait_for_condition(lambda: is_ready("False"))
        await client.create(QUEUES, queue("gone"))
        await wait_for_condition(lambda: is_ready("True"))
