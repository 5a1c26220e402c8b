"""Reservations in the life of a cluster: kept, used, given back, over; whoever schedules."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kilonova.api.times import rfc3339
from kilonova.kube import Client
from kilonova.kube.resource import plain
from kilonova.scheduler.answering import answer
from kilonova.scheduler.capturing import capture
from kilonova.scheduler.decisions import replay
from kilonova.scheduler.files import read, written
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.settings import Settings
from kilonova.scheduler.summary import summary_of
from kilonova.scheduler.whatif import what_if
from tests.local.embedded_cluster import NODES, PODS, LoopClock, eventually, settle, virtual_time
from tests.scheduler.faults import assert_nothing_twice, hold, mortal_scheduler
from tests.scheduler.pictures import HERE
from tests.scheduler.scheduling import (
    GANGS,
    QUEUES,
    a_cluster,
    all_placed,
    create_gang,
    fleet,
    gang,
    nodes_of,
    pod,
    scheduler_on,
    scheduling,
)

pytestmark = virtual_time

RESERVATIONS = plain("scheduling.kilonova.dev", "v1alpha1", "reservations", "Reservation", True)
NAMES_IT = {"scheduling.kilonova.dev/reservation": "night"}


def reservation(count: int = 2, gpus: int = 8, *, name: str = "night", **spec: Any) -> Any:
    """Room for equal pods, for an hour where nothing else is said."""
    if "podGang" not in spec:
        spec["pods"] = [{"count": count, "requests": {"nvidia.com/gpu": gpus}}]
    if "until" not in spec:
        spec.setdefault("duration", "1h")
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def naming(name: str, gpus: int) -> dict[str, Any]:
    body = pod(name, gpus)
    body["metadata"]["annotations"] = NAMES_IT
    return body


async def status_of(client: Client, name: str = "night") -> Any:
    return (await client.get(RESERVATIONS, name, "default")).get("status", {})


def in_phase(client: Client, phase: str, name: str = "night") -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return (await status_of(client, name)).get("phase") == phase

    return holds


async def test_nobody_else_gets_reserved_room() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(2), "default")
        await eventually(in_phase(client, "Reserved"))
        await client.create(PODS, pod("other", 1), "default")
        await settle(30)
        assert (await nodes_of(client))["other"] == ""
        status = await status_of(client)
        assert [(each["name"], each["pods"]) for each in status["nodes"]] == [
            ("node-0", 1),
            ("node-1", 1),
        ]
        assert status["nodes"][0]["devices"] == "0,1,2,3,4,5,6,7"
        (condition,) = status["conditions"]
        assert (condition["status"], condition["message"]) == ("True", "room for 2 pods on 2 nodes")


async def test_who_names_it_stands_in_its_room_and_leaves_it_to_the_next() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(2, 4), "default")
        await eventually(in_phase(client, "Reserved"))
        await client.create(PODS, naming("mine", 4), "default")
        await client.create(PODS, pod("other", 1), "default")
        await eventually(all_placed(client, ["mine"]))
        await eventually(in_phase(client, "Used"))
        assert (await status_of(client))["usedBy"] == {"namespace": "default", "name": "mine"}
        await client.delete(PODS, "mine", "default", grace=0)
        await eventually(in_phase(client, "Reserved"))
        await settle(30)
        assert (await nodes_of(client))["other"] == ""
        await client.create(PODS, naming("next", 4), "default")
        await eventually(all_placed(client, ["next"]))
        await assert_nothing_twice(client)


async def test_room_stays_kept_while_who_stands_in_it_takes_long_to_go() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(2, 4), "default")
        await eventually(in_phase(client, "Reserved"))
        mine = naming("mine", 4)
        mine["metadata"]["finalizers"] = ["example.com/wait"]
        await client.create(PODS, mine, "default")
        await client.create(PODS, pod("other", 1), "default")
        await eventually(in_phase(client, "Used"))
        await client.delete(PODS, "mine", "default")
        await settle(5)
        labels = {"metadata": {"labels": {"looked": "at"}}}
        await client.patch(RESERVATIONS, "night", labels, "default")
        await settle(60)
        assert (await status_of(client))["phase"] == "Used"
        assert (await nodes_of(client))["other"] == ""
        await client.patch(PODS, "mine", {"metadata": {"finalizers": None}}, "default")
        await eventually(in_phase(client, "Reserved"))
        await settle(30)
        assert (await nodes_of(client))["other"] == ""
        assert (await status_of(client))["nodes"][0]["devices"] == "0,1,2,3,4,5,6,7"


async def test_a_gang_names_it_by_its_reference() -> None:
    async with scheduling(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(2), "default")
        await eventually(in_phase(client, "Reserved"))
        kept = {each["name"] for each in (await status_of(client))["nodes"]}
        for each in ("a", "b"):
            await client.create(PODS, pod(each, 8, of="g"), "default")
        ref = {"namespace": "default", "name": "night"}
        body = gang("g", {"w": ["a", "b"]}, reuseReservationRef=ref)
        await client.create(GANGS, body, "default")
        await eventually(all_placed(client, ["a", "b"]))
        assert set((await nodes_of(client)).values()) == kept
        await eventually(in_phase(client, "Used"))


async def test_it_ends_and_others_get_the_room() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1, duration="10m"), "default")
        await eventually(in_phase(client, "Reserved"))
        await client.create(PODS, pod("other", 8), "default")
        await settle(300)
        assert (await nodes_of(client))["other"] == ""
        await eventually(in_phase(client, "Expired"), within=400)
        await eventually(all_placed(client, ["other"]))
        status = await status_of(client)
        assert "nodes" not in status
        assert status["conditions"][0]["reason"] == "Expired"


async def test_a_deleted_one_gives_its_room_back() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1), "default")
        await eventually(in_phase(client, "Reserved"))
        await client.create(PODS, pod("other", 8), "default")
        await settle(30)
        await client.delete(RESERVATIONS, "night", "default")
        await eventually(all_placed(client, ["other"]))


async def test_it_waits_for_its_start() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        start = LoopClock().now().timestamp() + 600
        body = reservation(1, start=_time(start), until=_time(start + 600))
        await client.create(RESERVATIONS, body, "default")
        await eventually(in_phase(client, "Waiting"))
        await client.create(PODS, pod("early", 1), "default")
        await eventually(all_placed(client, ["early"]))
        await client.delete(PODS, "early", "default", grace=0)
        await eventually(in_phase(client, "Reserved"), within=700)
        await eventually(in_phase(client, "Expired"), within=700)


async def test_what_finds_no_room_is_told_why_and_gets_it_later() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, pod("first", 1), "default")
        await eventually(all_placed(client, ["first"]))
        await client.create(RESERVATIONS, reservation(1), "default")
        await eventually(in_phase(client, "Pending"))
        await settle(10)
        (condition,) = (await status_of(client))["conditions"]
        assert condition["reason"] == "NoRoom"
        assert "nvidia.com/gpu" in condition["message"]
        await client.delete(PODS, "first", "default", grace=0)
        await eventually(in_phase(client, "Reserved"))


async def test_all_of_it_stands_in_one_domain() -> None:
    async with scheduling(fleet(4)) as (cluster, _):
        client = cluster.client("tester")
        for index in range(4):
            labels = {"metadata": {"labels": {"example.com/rack": f"r{index // 2}"}}}
            await client.patch(NODES, f"node-{index}", labels)
        await client.create(PODS, pod("in-the-way", 1, nodeName="node-0"), "default")
        await client.create(RESERVATIONS, reservation(2, topologyKey="example.com/rack"), "default")
        await eventually(in_phase(client, "Reserved"))
        assert [each["name"] for each in (await status_of(client))["nodes"]] == ["node-2", "node-3"]


async def test_it_counts_in_its_queue_and_waits_for_its_limit() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        spec = {"limit": {"nvidia.com/gpu": 8}}
        await client.create(QUEUES, {"metadata": {"name": "small"}, "spec": spec})
        await client.create(RESERVATIONS, reservation(1, queue="small"), "default")
        await eventually(in_phase(client, "Reserved"))
        await settle(10)
        queue = await client.get(QUEUES, "small")
        assert queue["status"]["allocated"]["nvidia.com/gpu"] == "8"
        await client.create(RESERVATIONS, reservation(1, queue="small", name="more"), "default")
        await settle(10)
        (condition,) = (await status_of(client, "more"))["conditions"]
        assert condition["reason"] == "QueueLimit"


async def test_room_for_a_gang_is_kept_while_its_pods_are_gated() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        names = await create_gang(client, "g", 2, gpus=8, schedulingGates=[{"name": "wait"}])
        await client.create(RESERVATIONS, reservation(podGang="g"), "default")
        await eventually(in_phase(client, "Reserved"))
        await client.create(PODS, pod("other", 1), "default")
        await settle(30)
        assert set((await nodes_of(client)).values()) == {""}
        for name in names:
            await client.patch(PODS, name, {"spec": {"schedulingGates": None}}, "default")
        await eventually(all_placed(client, names))
        await eventually(in_phase(client, "Used"))
        for name in names:
            await client.delete(PODS, name, "default", grace=0)
        await eventually(in_phase(client, "Reserved"))
        await settle(30)
        assert (await nodes_of(client))["other"] == ""


async def test_room_for_a_gang_that_is_not_there_is_told_so() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(podGang="none"), "default")
        await settle(10)
        (condition,) = (await status_of(client))["conditions"]
        assert condition["reason"] == "GangNotThere"


async def test_a_node_that_goes_is_replaced() -> None:
    async with scheduling(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(2), "default")
        await eventually(in_phase(client, "Reserved"))
        lost = (await status_of(client))["nodes"][0]["name"]
        await client.delete(NODES, lost)

        async def replaced() -> bool:
            status = await status_of(client)
            nodes = {each["name"] for each in status.get("nodes", [])}
            return status["phase"] == "Reserved" and lost not in nodes and len(nodes) == 2

        await eventually(replaced)


async def test_room_that_somebody_else_took_is_found_elsewhere() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1), "default")
        await eventually(in_phase(client, "Reserved"))
        (lost,) = [each["name"] for each in (await status_of(client))["nodes"]]
        await client.create(PODS, pod("foreign", 1, nodeName=lost), "default")

        async def elsewhere() -> bool:
            status = await status_of(client)
            nodes = [each["name"] for each in status.get("nodes", [])]
            return status["phase"] == "Reserved" and nodes != [lost]

        await eventually(elsewhere)


async def test_a_queue_gets_back_what_it_deserves_for_a_reservation() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        spec = {"deserved": {"nvidia.com/gpu": 8}}
        await client.create(QUEUES, {"metadata": {"name": "owner"}, "spec": spec})
        await client.create(PODS, pod("borrower", 8), "default")
        await eventually(all_placed(client, ["borrower"]))
        await client.create(RESERVATIONS, reservation(1, queue="owner"), "default")
        await eventually(in_phase(client, "Reserved"), within=120)
        assert (await nodes_of(client)).get("borrower", "") == ""


async def test_two_reservations_never_have_the_same_room() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        for name in ("one", "two", "three"):
            await client.create(RESERVATIONS, reservation(1, name=name), "default")
        await settle(30)
        found = [await status_of(client, name) for name in ("one", "two", "three")]
        nodes = [each["name"] for status in found for each in status.get("nodes", [])]
        assert sorted(nodes) == ["node-0", "node-1"]
        assert sorted(status["phase"] for status in found) == ["Pending", "Reserved", "Reserved"]


async def test_nobody_takes_room_of_another_namespace() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1), "default")
        await eventually(in_phase(client, "Reserved"))
        body = naming("stranger", 8)
        body["metadata"]["namespace"] = "kube-public"
        await client.create(PODS, body, "kube-public")
        await settle(30)
        found = await client.get(PODS, "stranger", "kube-public")
        assert "nodeName" not in found["spec"]


async def test_a_longer_time_keeps_its_place() -> None:
    async with scheduling(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1, duration="10m"), "default")
        await eventually(in_phase(client, "Reserved"))
        before = (await status_of(client))["nodes"]
        longer = {"spec": {"duration": "1h"}}
        await client.patch(RESERVATIONS, "night", longer, "default")
        await settle(1200)
        status = await status_of(client)
        assert (status["phase"], status["nodes"]) == ("Reserved", before)


async def test_one_that_changes_is_placed_anew() -> None:
    async with scheduling(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1), "default")
        await eventually(in_phase(client, "Reserved"))
        pods = [{"count": 2, "requests": {"nvidia.com/gpu": 4}}]
        await client.patch(RESERVATIONS, "night", {"spec": {"pods": pods}}, "default")

        async def placed_anew() -> bool:
            nodes = (await status_of(client)).get("nodes", [])
            return [(each["pods"], each["requests"]) for each in nodes] == [
                (2, {"nvidia.com/gpu": "4"})
            ]

        await eventually(placed_anew)


@pytest.mark.parametrize("used", [False, True], ids=["unused", "used"])
async def test_the_next_scheduler_keeps_what_was_promised(used: bool) -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        async with scheduler_on(cluster):
            await client.create(RESERVATIONS, reservation(2), "default")
            await eventually(in_phase(client, "Reserved"))
            if used:
                await client.create(PODS, naming("mine", 8), "default")
                await eventually(in_phase(client, "Used"))
            before = await status_of(client)
        await client.create(PODS, pod("other", 1), "default")
        async with scheduler_on(cluster):
            await settle(60)
            assert (await nodes_of(client))["other"] == ""
            assert await status_of(client) == before
            if used:
                await client.delete(PODS, "mine", "default", grace=0)
                await eventually(in_phase(client, "Reserved"))
            await client.create(PODS, naming("a", 8), "default")
            await client.create(PODS, naming("b", 8), "default")
            await eventually(all_placed(client, ["a", "b"]))
            await assert_nothing_twice(client)


@pytest.mark.parametrize("last_arrives", [True, False], ids=["arrives", "lost"])
@pytest.mark.parametrize("writes", [1, 2, 3, 4, 5])
async def test_whatever_write_is_the_last_nothing_is_given_twice(
    writes: int, last_arrives: bool
) -> None:
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(2), "default")
        await client.create(PODS, naming("mine", 8), "default")
        dying = mortal_scheduler(cluster, writes, last_arrives=last_arrives)
        async with dying as died:
            await asyncio.wait({asyncio.ensure_future(died.wait())}, timeout=60)
            await settle(1)
        await client.create(PODS, pod("other", 1), "default")
        async with scheduler_on(cluster):
            await eventually(all_placed(client, ["mine"]))
            await settle(30)
            await assert_nothing_twice(client)
            nodes = await nodes_of(client)
            if (await status_of(client))["phase"] == "Used":
                assert nodes["other"] == ""


async def test_who_stands_in_reserved_room_is_not_pushed_out() -> None:
    async with scheduling(fleet(1), Settings()) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1, duration="10m"), "default")
        await eventually(in_phase(client, "Reserved"))
        await client.create(PODS, naming("mine", 8), "default")
        await eventually(in_phase(client, "Used"))
        important = pod("important", 8, priorityClassName="system-node-critical")
        important["metadata"]["namespace"] = "kube-system"
        await client.create(PODS, important, "kube-system")
        await settle(120)
        assert (await nodes_of(client)).get("mine")
        await eventually(in_phase(client, "Expired"), within=700)

        async def pushed_out() -> bool:
            found = await client.get(PODS, "important", "kube-system")
            return bool(found["spec"].get("nodeName"))

        await eventually(pushed_out, within=120)


async def test_pictures_know_what_is_reserved() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1), "default")
        await eventually(in_phase(client, "Reserved"))
        await client.create(PODS, pod("other", 8), "default")
        await eventually(all_placed(client, ["other"]))
        await client.create(RESERVATIONS, reservation(4, name="large"), "default")
        await settle(5)
        captured = await capture(client, now=LoopClock().now)
        picture = read(written(captured.picture), HERE)
        (refused,) = replay(picture).refused
        assert (refused.gang, refused.reason) == ("rsv/default/large", "NoRoom")
        told = answer(picture, "default", "night")
        assert told is not None
        assert (told.gang, told.state) == ("rsv/default/night", "Placed")
        assert [each.devices for each in told.pods] == ["0,1,2,3,4,5,6,7"]
        waits = answer(picture, "default", "large")
        assert waits is not None
        assert waits.explanation is not None
        summary = summary_of(picture)
        assert (summary.pods, summary.standing, summary.reservations) == (1, 1, 1)


async def test_what_if_gives_reserved_room_to_those_who_name_it() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(1), "default")
        await eventually(in_phase(client, "Reserved"))
        picture = (await capture(client, now=LoopClock().now)).picture
        for body, placed in ((pod("any", 1), False), (naming("mine", 8), True)):
            body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
            body["metadata"]["creationTimestamp"] = "2026-05-01T00:00:00Z"
            resources = body["spec"]["containers"][0]["resources"]
            resources["requests"] |= resources["limits"]  # as a server would
            coming = msgspec.convert(body, Pod, strict=False)
            assert bool(what_if(picture, [coming], []).placed) is placed


async def test_a_gang_takes_over_the_place_of_the_one_before_it() -> None:
    async with scheduling(fleet(3)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, pod("filler", 8), "default")
        await eventually(all_placed(client, ["filler"]))
        old = await create_gang(client, "old", 1, gpus=8)
        await eventually(all_placed(client, old))
        place = (await nodes_of(client))[old[0]]
        await client.create(
            PODS, pod("new-0", 8, of="new", schedulingGates=[{"name": "w"}]), "default"
        )
        ref = {"namespace": "default", "name": "old"}
        await client.create(
            GANGS, gang("new", {"w": ["new-0"]}, reuseReservationRef=ref), "default"
        )
        await settle(5)
        await client.delete(PODS, old[0], "default", grace=0)
        await client.delete(PODS, "filler", "default", grace=0)
        await settle(5)
        await client.patch(PODS, "new-0", {"spec": {"schedulingGates": None}}, "default")
        await eventually(all_placed(client, ["new-0"]))
        assert (await nodes_of(client))["new-0"] == place


def _time(moment: float) -> str:
    return rfc3339(datetime.fromtimestamp(moment, UTC))


async def test_what_is_reserved_stays_booked_after_a_cycle_that_failed() -> None:
    async with scheduling(fleet(2)) as (cluster, ours):
        client = cluster.client("tester")
        await client.create(RESERVATIONS, reservation(2), "default")
        await eventually(in_phase(client, "Reserved"))
        reserved = ours.world.cluster.standing["rsv/default/night"]
        ours.world.cluster.leave("rsv/default/night", list(reserved.pods)[:1])
        ours.world.recount()
        ours.world.refresh()
        assert len(ours.world.cluster.standing["rsv/default/night"].pods) == 1


@pytest.mark.parametrize("lasts", [120, 800], ids=["slow", "overdue"])
async def test_one_victim_is_enough_for_a_reservation_however_long_it_takes(lasts: int) -> None:
    async with a_cluster(fleet(3)) as cluster:
        client = cluster.client("tester")
        owner = {"metadata": {"name": "owner"}, "spec": {"deserved": {"nvidia.com/gpu": "8"}}}
        await client.create(QUEUES, owner)
        for index in range(3):
            body = pod(f"low-{index}", 8, nodeName=f"node-{index}")
            await client.create(PODS, body, "default")
            await hold(client, f"low-{index}")
        await settle(5)
        async with scheduler_on(cluster, Settings(patience=40)):
            await settle(2)
            await client.create(RESERVATIONS, reservation(1, queue="owner"), "default")
            await client.create(PODS, pod("other", 8), "default")
            await settle(lasts)
            listing = (await client.list(PODS, "default")).items
            (victim,) = [each for each in listing if "deletionTimestamp" in each["metadata"]]
            await hold(client, victim["metadata"]["name"], held=False)
            await eventually(in_phase(client, "Reserved"), within=120)
            await settle(5)
            assert (await nodes_of(client))["other"] == ""
            await assert_nothing_twice(client)
