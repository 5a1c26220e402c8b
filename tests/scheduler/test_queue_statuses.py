"""What Queues say of themselves: figures and faults, written when they change and not too often."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kilonova.api.scheduling import Queue
from kilonova.kube import Client
from kilonova.kube.resource import plain
from kilonova.scheduler.core.asks import GpuAsk
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.queuefigures import queue_figures
from kilonova.scheduler.queuestatus import queue_status, status_change
from kilonova.scheduler.reading.amounts import quantity_of
from kilonova.scheduler.reading.queues import forest_from
from tests.local.embedded_cluster import PODS, eventually, settle, virtual_time
from tests.scheduler.pictures import node, waits
from tests.scheduler.scheduling import fleet, pod, scheduling

QUEUES = plain("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.kilonova.dev/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def read(name: str, **spec: Any) -> Queue:
    body = queue(name, **spec)
    body["metadata"] |= {"uid": "u", "resourceVersion": "1", "generation": 3}
    return msgspec.convert(body, Queue)


def cluster_with(*queues: Queue) -> Cluster:
    cluster = Cluster(forest_from(queues))
    cluster.snapshot.put_node(node("a"))
    return cluster


def in_queue(name: str, queue: str) -> Gang:
    return replace(waits(name, GpuAsk(1)), queue=queue)


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
def test_amounts_are_written_as_kubernetes_writes_them(resource: str, amount: int, text: str):
    assert quantity_of(resource, amount) == text


def test_what_waits_below_counts_above():
    cluster = cluster_with(read("top"), read("a", parent="top"), read("b", parent="top"))
    waiting = [in_queue("x", "a"), in_queue("y", "a"), in_queue("z", "b")]
    figures = queue_figures(cluster, waiting)
    assert [figures[name].pending for name in ("top", "a", "b", "default")] == [3, 2, 1, 0]
    assert figures["top"].requested == {"cpu": 3000, "nvidia.com/gpu": 3000}
    assert figures["top"].allocated == {}
    assert figures["top"].fair_share["nvidia.com/gpu"] == 2000


def test_a_status_is_written_once_and_its_time_stays_with_its_condition():
    one = read("a", limit={"nvidia.com/gpu": 1})
    cluster = cluster_with(one)
    status = queue_status(one, queue_figures(cluster, [])["a"], cluster.forest)
    change = status_change(one, status, NOW)
    assert change is not None
    told = msgspec.convert({**msgspec.to_builtins(one), "status": change}, Queue)
    assert status_change(told, status, NOW) is None
    busier = queue_status(one, queue_figures(cluster, [in_queue("x", "a")])["a"], cluster.forest)
    later = status_change(told, busier, datetime(2026, 5, 2, tzinfo=UTC))
    assert later is not None
    assert later["pendingGangs"] == 1
    assert later["conditions"][0]["lastTransitionTime"] == "2026-05-01T00:00:00Z"


@pytest.mark.parametrize(
    ("queues", "status", "reason", "message"),
    [
        ([read("a")], "True", "Placing", "gangs of the queue are placed"),
        ([read("a", parent="gone")], "False", "UnknownParent", 'create "gone"'),
        (
            [read("a", parent="b"), read("b", parent="a")],
            "False",
            "ParentCycle",
            "give one of them another parent",
        ),
        (
            [read("a", parent="b"), read("b", parent="gone")],
            "False",
            "ParentNotReady",
            'create "gone"',
        ),
        (
            [read("a", deserved={"cpu": 4}, limit={"cpu": 2})],
            "True",
            "LimitBelowDeserved",
            "raise limit or lower deserved",
        ),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(
    queues: list[Queue], status: str, reason: str, message: str
):
    cluster = cluster_with(*queues)
    (condition,) = queue_status(
        queues[0], queue_figures(cluster, [])["a"], cluster.forest
    ).conditions
    assert (condition.status, condition.reason) == (status, reason)
    assert message in condition.message


async def status_of(client: Client, name: str) -> dict[str, Any]:
    return (await client.get(QUEUES, name)).get("status", {})


@virtual_time
async def test_queues_tell_what_is_used_and_waits() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(QUEUES, queue("top", limit={"nvidia.com/gpu": 6}))
        await client.create(QUEUES, queue("team", parent="top", deserved={"nvidia.com/gpu": 4}))
        for name in ("a", "b"):
            body = pod(name, 4)
            body["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = "team"
            await client.create(PODS, body, "default")

        async def told() -> bool:
            status = await status_of(client, "team")
            return status.get("allocated", {}).get("nvidia.com/gpu") == "4"

        await eventually(told)
        team, top = await status_of(client, "team"), await status_of(client, "top")
        assert team["requested"]["nvidia.com/gpu"] == "8"
        assert team["fairShare"]["nvidia.com/gpu"] == "6"
        assert team["pendingGangs"] == top["pendingGangs"] == 1
        assert top["allocated"] == team["allocated"]
        assert team["conditions"][0]["reason"] == "Placing"

        await client.delete(PODS, "b", "default")

        async def less() -> bool:
            return (await status_of(client, "team"))["pendingGangs"] == 0

        await eventually(less)
        version = (await client.get(QUEUES, "team"))["metadata"]["resourceVersion"]
        await settle(30)
        assert (await client.get(QUEUES, "team"))["metadata"]["resourceVersion"] == version


@virtual_time
async def test_a_queue_that_is_repaired_says_so() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(QUEUES, queue("team", parent="gone"))

        async def is_ready(status: str) -> bool:
            found = (await status_of(client, "team")).get("conditions", [])
            return [each["status"] for each in found] == [status]

        await eventually(lambda: is_ready("False"))
        await client.create(QUEUES, queue("gone"))
        await eventually(lambda: is_ready("True"))
