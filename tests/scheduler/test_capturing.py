"""A picture of a live cluster shows what a scheduler that runs there has in mind."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from kilonova.kube import Client, Forbidden
from kilonova.kube.resource import plain
from kilonova.kube.transport import Reply, Request
from kilonova.scheduler.capturing import capture
from kilonova.scheduler.core.plan import Policy
from kilonova.scheduler.decisions import replay
from kilonova.scheduler.files import read, written
from kilonova.scheduler.picture import Picture, picture_of
from kilonova.scheduler.reading.queues import spec_of
from tests.local.embedded_cluster import PODS, LoopClock, eventually, running, settle, virtual_time
from tests.scheduler.faults import Disturbed, full_cluster, transport_of
from tests.scheduler.pictures import HERE
from tests.scheduler.scheduling import (
    PRIORITIES,
    a_cluster,
    all_placed,
    create_gang,
    fleet,
    pod,
    scheduler_on,
    scheduling,
)

pytestmark = virtual_time

QUEUES = plain("scheduling.kilonova.dev", "v1alpha1", "queues", "Queue", False)


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


async def test_the_picture_is_what_the_scheduler_has_in_mind() -> None:
    async with scheduling(fleet(3)) as (cluster, scheduler):
        client = cluster.client("tester")
        await client.create(QUEUES, queue("small", limit={"nvidia.com/gpu": 1}))
        names = await create_gang(client, "g", 3, gpus=4)
        await eventually(all_placed(client, names))
        waiting = pod("held", 2)
        waiting["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = "small"
        await client.create(PODS, waiting, "default")
        await client.create(PODS, pod("huge", 9), "default")
        await settle()
        now = LoopClock().now
        captured = await capture(client, now=now)
        world = scheduler.world
        known = picture_of(
            world.cluster,
            world.waiting.values(),
            map(spec_of, scheduler.caches.queues.store.objects()),
            Policy(),
            now().timestamp(),
            not_yet=world.not_yet,
            priorities=captured.picture.priorities,
        )
        assert replace(captured.picture, standing=()) == replace(known, standing=())
        assert _standing(captured.picture) == _standing(known)
        assert replay(captured.picture) == replay(known)
        assert captured.unknown == ()
        assert len(known.bookings) == 3
        told = replay(read(written(captured.picture), HERE))
        assert {each.gang: each.reason for each in told.refused} == {
            "pod/default/held": "QueueLimit",
            "pod/default/huge": "NoRoom",
        }


def _standing(picture: Picture) -> dict[str, tuple[str, dict[str, Any]]]:
    """Who stands; what a gang was asked to be differs before and after its pods are there."""
    return {one.gang.name: (one.gang.queue, dict(one.pods)) for one in picture.standing}


async def test_a_cluster_without_our_kinds_has_a_picture_too() -> None:
    async with running(fleet=fleet(1), scheduler=False) as cluster:
        client = cluster.client("tester")
        never = {"metadata": {"name": "calm"}, "value": 5, "preemptionPolicy": "Never"}
        await client.create(PRIORITIES, never)
        captured = await capture(client, now=LoopClock().now)
        assert captured.picture.never_preempting == ("calm",)
        assert read(written(captured.picture), HERE).never_preempting == ("calm",)
        assert len(captured.picture.nodes) == 1
        assert "queues.scheduling.kilonova.dev" in captured.unknown
        assert captured.picture.priorities["system-node-critical"] > 10**9


def forbidding(plural: str) -> Callable[[Request], Awaitable[Reply | None]]:
    """Answers of a server that shows no objects of a kind to the one who asks."""

    async def forbid(request: Request) -> Reply | None:
        if not request.path.endswith(f"/{plural}"):
            return None
        return Reply(403, b'{"kind":"Status","code":403,"message":"not allowed"}', {})

    return forbid


async def test_who_may_not_see_groups_of_others_captures_the_rest() -> None:
    async with a_cluster(fleet(1)) as cluster:
        await create_gang(cluster.client("tester"), "g", 2, gpus=1)
        way = Disturbed(transport_of(cluster))
        way.before = forbidding("podgroups")
        captured = await capture(Client(way), now=LoopClock().now)
        assert [each.name for each in captured.picture.waiting] == ["default/g"]
        assert captured.unknown == ()


async def test_who_may_not_see_queues_captures_nothing() -> None:
    async with a_cluster(fleet(1)) as cluster:
        way = Disturbed(transport_of(cluster))
        way.before = forbidding("queues")
        with pytest.raises(Forbidden):
            await capture(Client(way), now=LoopClock().now)


async def test_capacity_that_is_being_released_is_captured_as_free() -> None:
    async with full_cluster() as (cluster, client), scheduler_on(cluster):
        await client.create(PODS, pod("chief", 4, priorityClassName="high"), "default")
        await settle()
        captured = await capture(client, now=LoopClock().now)
        (placed,) = replay(captured.picture).placed
        assert [each.node for each in placed.pods] == ["node-0"]
        assert placed.evicted == ()
