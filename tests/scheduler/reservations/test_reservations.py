"""Reservations on a running cluster: reserved, used, released, expired, across restarts."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kilonova.api.times import format_rfc3339
from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.scheduler.library.decisions import replay_snapshot
from kilonova.scheduler.library.placement_report import report_placement
from kilonova.scheduler.library.snapshots.capture import capture_snapshot
from kilonova.scheduler.library.snapshots.file import decode_snapshot, encode_snapshot
from kilonova.scheduler.library.summary import summarize_snapshot
from kilonova.scheduler.library.what_if import what_if
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import (
    NODES,
    PODS,
    LoopClock,
    advance_time,
    virtual_time,
    wait_for_condition,
)
from tests.scheduler.harness.embedded_scheduler import (
    GANGS,
    QUEUES,
    are_all_placed,
    create_gang,
    embedded_cluster,
    fleet,
    gang,
    nodes_by_pod,
    pod,
    running_scheduler,
    scheduled_cluster,
)
from tests.scheduler.harness.fault_injection import (
    assert_no_double_allocation,
    crashing_scheduler,
    set_slow_termination,
)
from tests.scheduler.harness.snapshots import UNUSED_PATH

pytestmark = virtual_time

RESERVATIONS = unstructured_resource(
    "scheduling.kilonova.dev", "v1alpha1", "reservations", "Reservation", True
)
RESERVATION_ANNOTATION = {"scheduling.kilonova.dev/reservation": "night"}


def reservation(count: int = 2, gpus: int = 8, *, name: str = "night", **spec: Any) -> Any:
    """A Reservation for equal pods, by default for an hour."""
    if "podGang" not in spec:
        spec["pods"] = [{"count": count, "requests": {"nvidia.com/gpu": gpus}}]
    if "until" not in spec:
        spec.setdefault("duration", "1h")
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def pod_using_reservation(name: str, gpus: int) -> dict[str, Any]:
    body = pod(name, gpus)
    body["metadata"]["annotations"] = RESERVATION_ANNOTATION
    return body


async def status_of(client: Client, name: str = "night") -> Any:
    return (await client.get(RESERVATIONS, name, "default")).get("status", {})


def in_phase(client: Client, phase: str, name: str = "night") -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return (await status_of(client, name)).get("phase") == phase

    return holds


async def test_other_pods_do_not_get_reserved_capacity() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(2), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        await client.create(PODS, pod("other", 1), "default")
        await advance_time(30)
        assert (await nodes_by_pod(client))["other"] == ""
        status = await status_of(client)
        assert [(each["name"], each["pods"]) for each in status["nodes"]] == [
            ("node-0", 1),
            ("node-1", 1),
        ]
        assert status["nodes"][0]["devices"] == "0,1,2,3,4,5,6,7"
        (condition,) = status["conditions"]
        assert (condition["status"], condition["message"]) == (
            "True",
            "capacity reserved for 2 pods on 2 nodes",
        )


async def test_consumer_uses_reserved_capacity_and_leaves_it_to_the_next() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(2, 4), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        await client.create(PODS, pod_using_reservation("mine", 4), "default")
        await client.create(PODS, pod("other", 1), "default")
        await wait_for_condition(are_all_placed(client, ["mine"]))
        await wait_for_condition(in_phase(client, "Used"))
        assert (await status_of(client))["usedBy"] == {"namespace": "default", "name": "mine"}
        await client.delete(PODS, "mine", "default", grace_period_seconds=0)
        await wait_for_condition(in_phase(client, "Reserved"))
        await advance_time(30)
        assert (await nodes_by_pod(client))["other"] == ""
        await client.create(PODS, pod_using_reservation("next", 4), "default")
        await wait_for_condition(are_all_placed(client, ["next"]))
        await assert_no_double_allocation(client)


async def test_capacity_stays_reserved_while_its_consumer_terminates() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(2, 4), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        mine = pod_using_reservation("mine", 4)
        mine["metadata"]["finalizers"] = ["example.com/wait"]
        await client.create(PODS, mine, "default")
        await client.create(PODS, pod("other", 1), "default")
        await wait_for_condition(in_phase(client, "Used"))
        await client.delete(PODS, "mine", "default")
        await advance_time(5)
        labels = {"metadata": {"labels": {"looked": "at"}}}
        await client.patch(RESERVATIONS, "night", labels, "default")
        await advance_time(60)
        assert (await status_of(client))["phase"] == "Used"
        assert (await nodes_by_pod(client))["other"] == ""
        await client.patch(PODS, "mine", {"metadata": {"finalizers": None}}, "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        await advance_time(30)
        assert (await nodes_by_pod(client))["other"] == ""
        assert (await status_of(client))["nodes"][0]["devices"] == "0,1,2,3,4,5,6,7"


async def test_gang_consumes_the_reservation_of_its_reference() -> None:
    async with scheduled_cluster(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(2), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        reserved_names = {each["name"] for each in (await status_of(client))["nodes"]}
        for each in ("a", "b"):
            await client.create(PODS, pod(each, 8, gang="g"), "default")
        ref = {"namespace": "default", "name": "night"}
        body = gang("g", {"w": ["a", "b"]}, reuseReservationRef=ref)
        await client.create(GANGS, body, "default")
        await wait_for_condition(are_all_placed(client, ["a", "b"]))
        assert set((await nodes_by_pod(client)).values()) == reserved_names
        await wait_for_condition(in_phase(client, "Used"))


async def test_expired_reservation_frees_its_capacity() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1, duration="10m"), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        await client.create(PODS, pod("other", 8), "default")
        await advance_time(300)
        assert (await nodes_by_pod(client))["other"] == ""
        await wait_for_condition(in_phase(client, "Expired"), within=400)
        await wait_for_condition(are_all_placed(client, ["other"]))
        status = await status_of(client)
        assert "nodes" not in status
        assert status["conditions"][0]["reason"] == "Expired"


async def test_deleted_reservation_frees_its_capacity() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        await client.create(PODS, pod("other", 8), "default")
        await advance_time(30)
        await client.delete(RESERVATIONS, "night", "default")
        await wait_for_condition(are_all_placed(client, ["other"]))


async def test_reservation_waits_for_its_start() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        start = LoopClock().now().timestamp() + 600
        body = reservation(1, start=_time(start), until=_time(start + 600))
        await client.create(RESERVATIONS, body, "default")
        await wait_for_condition(in_phase(client, "Waiting"))
        await client.create(PODS, pod("early", 1), "default")
        await wait_for_condition(are_all_placed(client, ["early"]))
        await client.delete(PODS, "early", "default", grace_period_seconds=0)
        await wait_for_condition(in_phase(client, "Reserved"), within=700)
        await wait_for_condition(in_phase(client, "Expired"), within=700)


async def test_pending_reservation_reports_why_and_is_reserved_later() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, pod("first", 1), "default")
        await wait_for_condition(are_all_placed(client, ["first"]))
        await client.create(RESERVATIONS, reservation(1), "default")
        await wait_for_condition(in_phase(client, "Pending"))
        await advance_time(10)
        (condition,) = (await status_of(client))["conditions"]
        assert condition["reason"] == "InsufficientCapacity"
        assert "nvidia.com/gpu" in condition["message"]
        await client.delete(PODS, "first", "default", grace_period_seconds=0)
        await wait_for_condition(in_phase(client, "Reserved"))


async def test_reservation_is_packed_into_one_domain() -> None:
    async with scheduled_cluster(fleet(4)) as (cluster, _):
        client = cluster.client("tester")
        for index in range(4):
            labels = {"metadata": {"labels": {"example.com/rack": f"r{index // 2}"}}}
            await client.patch(NODES, f"node-{index}", labels)
        await client.create(PODS, pod("in-the-way", 1, nodeName="node-0"), "default")
        await client.create(RESERVATIONS, reservation(2, topologyKey="example.com/rack"), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        assert [each["name"] for each in (await status_of(client))["nodes"]] == ["node-2", "node-3"]


async def test_reservation_counts_in_its_queue_and_waits_for_its_limit() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        spec = {"limit": {"nvidia.com/gpu": 8}}
        await client.create(QUEUES, {"metadata": {"name": "small"}, "spec": spec})
        await client.create(RESERVATIONS, reservation(1, queue="small"), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        await advance_time(10)
        queue = await client.get(QUEUES, "small")
        assert queue["status"]["allocated"]["nvidia.com/gpu"] == "8"
        await client.create(RESERVATIONS, reservation(1, queue="small", name="more"), "default")
        await advance_time(10)
        (condition,) = (await status_of(client, "more"))["conditions"]
        assert condition["reason"] == "QueueLimitReached"


async def test_reservation_for_a_gang_with_gated_pods() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        names = await create_gang(client, "g", 2, gpus=8, schedulingGates=[{"name": "wait"}])
        await client.create(RESERVATIONS, reservation(podGang="g"), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        await client.create(PODS, pod("other", 1), "default")
        await advance_time(30)
        assert set((await nodes_by_pod(client)).values()) == {""}
        for name in names:
            await client.patch(PODS, name, {"spec": {"schedulingGates": None}}, "default")
        await wait_for_condition(are_all_placed(client, names))
        await wait_for_condition(in_phase(client, "Used"))
        for name in names:
            await client.delete(PODS, name, "default", grace_period_seconds=0)
        await wait_for_condition(in_phase(client, "Reserved"))
        await advance_time(30)
        assert (await nodes_by_pod(client))["other"] == ""


async def test_reservation_for_a_missing_gang_reports_it() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(podGang="none"), "default")
        await advance_time(10)
        (condition,) = (await status_of(client))["conditions"]
        assert condition["reason"] == "GangNotFound"


async def test_removed_node_of_a_reservation_is_replaced() -> None:
    async with scheduled_cluster(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(2), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        lost = (await status_of(client))["nodes"][0]["name"]
        await client.delete(NODES, lost)

        async def replaced() -> bool:
            status = await status_of(client)
            nodes = {each["name"] for each in status.get("nodes", [])}
            return status["phase"] == "Reserved" and lost not in nodes and len(nodes) == 2

        await wait_for_condition(replaced)


async def test_reserved_capacity_taken_by_others_is_replaced() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        (lost,) = [each["name"] for each in (await status_of(client))["nodes"]]
        await client.create(PODS, pod("foreign", 1, nodeName=lost), "default")

        async def elsewhere() -> bool:
            status = await status_of(client)
            nodes = [each["name"] for each in status.get("nodes", [])]
            return status["phase"] == "Reserved" and nodes != [lost]

        await wait_for_condition(elsewhere)


async def test_queue_reclaims_its_deserved_share_for_a_reservation() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        spec = {"deserved": {"nvidia.com/gpu": 8}}
        await client.create(QUEUES, {"metadata": {"name": "owner"}, "spec": spec})
        await client.create(PODS, pod("borrower", 8), "default")
        await wait_for_condition(are_all_placed(client, ["borrower"]))
        await client.create(RESERVATIONS, reservation(1, queue="owner"), "default")
        await wait_for_condition(in_phase(client, "Reserved"), within=120)
        assert (await nodes_by_pod(client)).get("borrower", "") == ""


async def test_two_reservations_never_share_capacity() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        for name in ("one", "two", "three"):
            await client.create(RESERVATIONS, reservation(1, name=name), "default")
        await advance_time(30)
        found = [await status_of(client, name) for name in ("one", "two", "three")]
        nodes = [each["name"] for status in found for each in status.get("nodes", [])]
        assert sorted(nodes) == ["node-0", "node-1"]
        assert sorted(status["phase"] for status in found) == ["Pending", "Reserved", "Reserved"]


async def test_reservation_of_another_namespace_is_not_used() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        body = pod_using_reservation("stranger", 8)
        body["metadata"]["namespace"] = "kube-public"
        await client.create(PODS, body, "kube-public")
        await advance_time(30)
        found = await client.get(PODS, "stranger", "kube-public")
        assert "nodeName" not in found["spec"]


async def test_extended_reservation_keeps_its_nodes() -> None:
    async with scheduled_cluster(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1, duration="10m"), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        before = (await status_of(client))["nodes"]
        longer = {"spec": {"duration": "1h"}}
        await client.patch(RESERVATIONS, "night", longer, "default")
        await advance_time(1200)
        status = await status_of(client)
        assert (status["phase"], status["nodes"]) == ("Reserved", before)


async def test_changed_reservation_is_placed_again() -> None:
    async with scheduled_cluster(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        pods = [{"count": 2, "requests": {"nvidia.com/gpu": 4}}]
        await client.patch(RESERVATIONS, "night", {"spec": {"pods": pods}}, "default")

        async def placed_anew() -> bool:
            nodes = (await status_of(client)).get("nodes", [])
            return [(each["pods"], each["requests"]) for each in nodes] == [
                (2, {"nvidia.com/gpu": "4"})
            ]

        await wait_for_condition(placed_anew)


@pytest.mark.parametrize("used", [False, True], ids=["unused", "used"])
async def test_next_scheduler_keeps_reservations(used: bool) -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        async with running_scheduler(cluster):
            await client.create(RESERVATIONS, reservation(2), "default")
            await wait_for_condition(in_phase(client, "Reserved"))
            if used:
                await client.create(PODS, pod_using_reservation("mine", 8), "default")
                await wait_for_condition(in_phase(client, "Used"))
            before = await status_of(client)
        await client.create(PODS, pod("other", 1), "default")
        async with running_scheduler(cluster):
            await advance_time(60)
            assert (await nodes_by_pod(client))["other"] == ""
            assert await status_of(client) == before
            if used:
                await client.delete(PODS, "mine", "default", grace_period_seconds=0)
                await wait_for_condition(in_phase(client, "Reserved"))
            await client.create(PODS, pod_using_reservation("a", 8), "default")
            await client.create(PODS, pod_using_reservation("b", 8), "default")
            await wait_for_condition(are_all_placed(client, ["a", "b"]))
            await assert_no_double_allocation(client)


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
@pytest.mark.parametrize("writes", [1, 2, 3, 4, 5])
async def test_crash_at_any_write_causes_no_double_allocation(
    writes: int, last_arrives: bool
) -> None:
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(2), "default")
        await client.create(PODS, pod_using_reservation("mine", 8), "default")
        dying = crashing_scheduler(cluster, writes, last_arrives=last_arrives)
        async with dying as died:
            await asyncio.wait({asyncio.ensure_future(died.wait())}, timeout=60)
            await advance_time(1)
        await client.create(PODS, pod("other", 1), "default")
        async with running_scheduler(cluster):
            await wait_for_condition(are_all_placed(client, ["mine"]))
            await advance_time(30)
            await assert_no_double_allocation(client)
            nodes = await nodes_by_pod(client)
            if (await status_of(client))["phase"] == "Used":
                assert nodes["other"] == ""


async def test_consumer_of_a_reservation_is_not_preempted() -> None:
    async with scheduled_cluster(fleet(1), SchedulerSettings()) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1, duration="10m"), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        await client.create(PODS, pod_using_reservation("mine", 8), "default")
        await wait_for_condition(in_phase(client, "Used"))
        important = pod("important", 8, priorityClassName="system-node-critical")
        important["metadata"]["namespace"] = "kube-system"
        await client.create(PODS, important, "kube-system")
        await advance_time(120)
        assert (await nodes_by_pod(client)).get("mine")
        await wait_for_condition(in_phase(client, "Expired"), within=700)

        async def pushed_out() -> bool:
            found = await client.get(PODS, "important", "kube-system")
            return bool(found["spec"].get("nodeName"))

        await wait_for_condition(pushed_out, within=120)


async def test_snapshots_contain_reservations() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        await client.create(PODS, pod("other", 8), "default")
        await wait_for_condition(are_all_placed(client, ["other"]))
        await client.create(RESERVATIONS, reservation(4, name="large"), "default")
        await advance_time(5)
        captured = await capture_snapshot(client, now=LoopClock().now)
        cluster_snapshot = decode_snapshot(encode_snapshot(captured.cluster_snapshot), UNUSED_PATH)
        (rejected,) = replay_snapshot(cluster_snapshot).rejected
        assert (rejected.gang, rejected.reason) == ("rsv/default/large", "InsufficientCapacity")
        report = report_placement(cluster_snapshot, "default", "night")
        assert report is not None
        assert (report.gang, report.state) == ("rsv/default/night", "Placed")
        assert [each.devices for each in report.pods] == ["0,1,2,3,4,5,6,7"]
        waits = report_placement(cluster_snapshot, "default", "large")
        assert waits is not None
        assert waits.explanation is not None
        summary = summarize_snapshot(cluster_snapshot)
        assert (summary.pods, summary.placed_gangs, summary.reservations) == (1, 1, 1)


async def test_what_if_uses_reserved_capacity() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        cluster_snapshot = (await capture_snapshot(client, now=LoopClock().now)).cluster_snapshot
        for body, placed in ((pod("any", 1), False), (pod_using_reservation("mine", 8), True)):
            body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
            body["metadata"]["creationTimestamp"] = "2026-05-01T00:00:00Z"
            resources = body["spec"]["containers"][0]["resources"]
            resources["requests"] |= resources["limits"]  # as an API server would
            coming = msgspec.convert(body, Pod, strict=False)
            assert bool(what_if(cluster_snapshot, [coming], []).placed) is placed


async def test_gang_reuses_the_nodes_of_its_predecessor() -> None:
    async with scheduled_cluster(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, pod("filler", 8), "default")
        await wait_for_condition(are_all_placed(client, ["filler"]))
        old = await create_gang(client, "old", 1, gpus=8)
        await wait_for_condition(are_all_placed(client, old))
        place = (await nodes_by_pod(client))[old[0]]
        await client.create(
            PODS, pod("new-0", 8, gang="new", schedulingGates=[{"name": "w"}]), "default"
        )
        ref = {"namespace": "default", "name": "old"}
        await client.create(
            GANGS, gang("new", {"w": ["new-0"]}, reuseReservationRef=ref), "default"
        )
        await advance_time(5)
        await client.delete(PODS, old[0], "default", grace_period_seconds=0)
        await client.delete(PODS, "filler", "default", grace_period_seconds=0)
        await advance_time(5)
        await client.patch(PODS, "new-0", {"spec": {"schedulingGates": None}}, "default")
        await wait_for_condition(are_all_placed(client, ["new-0"]))
        assert (await nodes_by_pod(client))["new-0"] == place


def _time(moment: float) -> str:
    return format_rfc3339(datetime.fromtimestamp(moment, UTC))


async def test_capacity_stays_reserved_after_a_failed_cycle() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, ours):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(2), "default")
        await wait_for_condition(in_phase(client, "Reserved"))
        reserved = ours.cache.cluster.running_gangs["rsv/default/night"]
        ours.cache.cluster.record_removed("rsv/default/night", list(reserved.pods)[:1])
        ours.cache.resync_running_gangs()
        ours.cache.refresh()
        assert len(ours.cache.cluster.running_gangs["rsv/default/night"].pods) == 1


@pytest.mark.parametrize("lasts", [120, 800], ids=["slow", "overdue"])
async def test_slow_victim_of_a_reservation_causes_no_second_eviction(lasts: int) -> None:
    async with embedded_cluster(fleet(3)) as cluster:
        client = cluster.client("tester")
        owner = {"metadata": {"name": "owner"}, "spec": {"deserved": {"nvidia.com/gpu": "8"}}}
        await client.create(QUEUES, owner)
        for index in range(3):
            body = pod(f"low-{index}", 8, nodeName=f"node-{index}")
            await client.create(PODS, body, "default")
            await set_slow_termination(client, f"low-{index}")
        await advance_time(5)
        async with running_scheduler(cluster, SchedulerSettings(eviction_timeout=40)):
            await advance_time(2)
            await client.create(RESERVATIONS, reservation(1, queue="owner"), "default")
            await client.create(PODS, pod("other", 8), "default")
            await advance_time(lasts)
            listing = (await client.list(PODS, "default")).items
            (victim,) = [each for each in listing if "deletionTimestamp" in each["metadata"]]
            await set_slow_termination(client, victim["metadata"]["name"], slow=False)
            await wait_for_condition(in_phase(client, "Reserved"), within=120)
            await advance_time(5)
            assert (await nodes_by_pod(client))["other"] == ""
            await assert_no_double_allocation(client)
