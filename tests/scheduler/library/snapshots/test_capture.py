"""A captured snapshot of a live cluster equals the state of its scheduler."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from kilonova.kube import Client, Forbidden
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.client.transport import Reply, Request
from kilonova.scheduler.convert.queues import convert_queue
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.library.decisions import replay_snapshot
from kilonova.scheduler.library.snapshots.capture import capture_snapshot
from kilonova.scheduler.library.snapshots.file import decode_snapshot, encode_snapshot
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot, take_snapshot
from tests.local.embedded_cluster import (
    PODS,
    LoopClock,
    advance_time,
    run_cluster,
    virtual_time,
    wait_for_condition,
)
from tests.scheduler.harness.embedded_scheduler import (
    PRIORITY_CLASSES,
    are_all_placed,
    create_gang,
    embedded_cluster,
    fleet,
    pod,
    running_scheduler,
    scheduled_cluster,
)
from tests.scheduler.harness.fault_injection import InterceptedTransport, full_cluster, transport_of
from tests.scheduler.harness.snapshots import UNUSED_PATH

pytestmark = virtual_time

QUEUES = unstructured_resource("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


async def test_captured_snapshot_equals_the_scheduler_cache() -> None:
    async with scheduled_cluster(fleet(3)) as (cluster, scheduler):
        client = cluster.client("tester")
        await client.create(QUEUES, queue("small", limit={"nvidia.com/gpu": 1}))
        names = await create_gang(client, "g", 3, gpus=4)
        await wait_for_condition(are_all_placed(client, names))
        waiting = pod("held", 2)
        waiting["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = "small"
        await client.create(PODS, waiting, "default")
        await client.create(PODS, pod("huge", 9), "default")
        await advance_time()
        now = LoopClock().now
        captured = await capture_snapshot(client, now=now)
        cache = scheduler.cache
        known = take_snapshot(
            cache.cluster,
            cache.waiting.values(),
            map(convert_queue, scheduler.informers.queues.store.objects()),
            PlannerPolicy(),
            now().timestamp(),
            not_ready=cache.not_ready,
            priorities=captured.cluster_snapshot.priorities,
        )
        assert replace(captured.cluster_snapshot, running_gangs=()) == replace(
            known, running_gangs=()
        )
        assert _running_gang_names(captured.cluster_snapshot) == _running_gang_names(known)
        assert replay_snapshot(captured.cluster_snapshot) == replay_snapshot(known)
        assert captured.unknown_kinds == ()
        assert len(known.placements) == 3
        decisions = replay_snapshot(
            decode_snapshot(encode_snapshot(captured.cluster_snapshot), UNUSED_PATH)
        )
        assert {each.gang: each.reason for each in decisions.rejected} == {
            "pod/default/held": "QueueLimitReached",
            "pod/default/huge": "InsufficientCapacity",
        }


def _running_gang_names(cluster_snapshot: ClusterSnapshot) -> dict[str, tuple[str, dict[str, Any]]]:
    """The running gangs; the minimum of a gang differs before and after its pods exist."""
    return {
        running_gang.gang.name: (running_gang.gang.queue, dict(running_gang.pods))
        for running_gang in cluster_snapshot.running_gangs
    }


async def test_cluster_without_our_kinds_can_be_captured() -> None:
    async with run_cluster(fleet=fleet(1), scheduler=False) as cluster:
        client = cluster.client("tester")
        never = {"metadata": {"name": "calm"}, "value": 5, "preemptionPolicy": "Never"}
        await client.create(PRIORITY_CLASSES, never)
        captured = await capture_snapshot(client, now=LoopClock().now)
        assert captured.cluster_snapshot.never_preempting == ("calm",)
        assert decode_snapshot(
            encode_snapshot(captured.cluster_snapshot), UNUSED_PATH
        ).never_preempting == ("calm",)
        assert len(captured.cluster_snapshot.nodes) == 1
        assert "queues.scheduling.kilonova.dev" in captured.unknown_kinds
        assert captured.cluster_snapshot.priorities["system-node-critical"] > 10**9


def forbidding(plural: str) -> Callable[[Request], Awaitable[Reply | None]]:
    """Replies of a server that forbids listing a kind."""

    async def forbid(request: Request) -> Reply | None:
        if not request.path.endswith(f"/{plural}"):
            return None
        return Reply(403, b'{"kind":"Status","code":403,"message":"not allowed"}', {})

    return forbid


async def test_capture_works_without_permission_for_pod_groups() -> None:
    async with embedded_cluster(fleet(1)) as cluster:
        await create_gang(cluster.client("tester"), "g", 2, gpus=1)
        way = InterceptedTransport(transport_of(cluster))
        way.intercept = forbidding("podgroups")
        captured = await capture_snapshot(Client(way), now=LoopClock().now)
        assert [each.name for each in captured.cluster_snapshot.pending_gangs] == ["default/g"]
        assert captured.unknown_kinds == ()


async def test_capture_fails_without_permission_for_queues() -> None:
    async with embedded_cluster(fleet(1)) as cluster:
        way = InterceptedTransport(transport_of(cluster))
        way.intercept = forbidding("queues")
        with pytest.raises(Forbidden):
            await capture_snapshot(Client(way), now=LoopClock().now)


async def test_capacity_of_terminating_victims_is_captured_as_free() -> None:
    async with full_cluster() as (cluster, client), running_scheduler(cluster):
        await client.create(PODS, pod("chief", 4, priorityClassName="high"), "default")
        await advance_time()
        captured = await capture_snapshot(client, now=LoopClock().now)
        (placed,) = replay_snapshot(captured.cluster_snapshot).placed
        assert [each.node for each in placed.pods] == ["node-0"]
        assert placed.evicted == ()
