"""Decisions that become void, and bindings that fail: nothing stays booked, nobody is forgotten."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.transport import Reply, Request
from kilonova.local.cluster import Cluster
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import EVENTS, PODS, eventually, find, settle, virtual_time
from tests.scheduler.faults import (
    Disturbed,
    abandoned_scheduler,
    assert_nothing_twice,
    full_cluster,
    hold,
    is_binding,
    transport_of,
)
from tests.scheduler.scheduling import (
    GANGS,
    a_cluster,
    all_placed,
    fleet,
    gang,
    make_priority,
    nodes_of,
    pod,
    scheduler_on,
)

pytestmark = virtual_time


@asynccontextmanager
async def disturbed(
    cluster: Cluster, settings: Settings | None = None
) -> AsyncGenerator[Disturbed]:
    """A scheduler on a cluster to which it has a way that a test can disturb."""
    way = Disturbed(transport_of(cluster))
    async with abandoned_scheduler(way, settings):
        yield way


async def let_victims_go(client: Client) -> None:
    for name in ("low-0", "low-1"):
        await hold(client, name, held=False)


async def test_a_podgang_that_appears_while_its_pod_waits_gets_the_pod() -> None:
    async with full_cluster() as (cluster, client), scheduler_on(cluster):
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await settle(5)
        await client.create(GANGS, gang("g", {"w": ["chief"]}), "default")
        await settle(5)
        await let_victims_go(client)
        await eventually(all_placed(client, ["chief"]))
        await assert_nothing_twice(client)


async def test_a_podgang_that_lacks_pods_withholds_nothing_from_others() -> None:
    """Its one pod was decided about alone, and waited for others to go."""
    async with full_cluster() as (cluster, client), scheduler_on(cluster):
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await settle(5)
        await client.create(GANGS, gang("g", {"w": ["chief", "missing"]}), "default")
        await let_victims_go(client)
        await client.create(PODS, pod("next", 8), "default")
        await eventually(all_placed(client, ["next"]))
        assert (await nodes_of(client))["chief"] == ""


@pytest.mark.parametrize("listed", [True, False], ids=["labelled", "plain"])
async def test_when_a_podgang_goes_while_its_pods_wait_nothing_stays_booked(listed: bool) -> None:
    async with full_cluster() as (cluster, client), scheduler_on(cluster):
        names = ["chief-0", "chief-1"]
        for name in names:
            body = pod(name, 4, of="g" if listed else "", priorityClassName="high")
            await client.create(PODS, body, "default")
        await client.create(GANGS, gang("g", {"w": names}), "default")
        await settle(5)
        await client.delete(GANGS, "g", "default")
        await let_victims_go(client)
        if listed:  # its pods wait for a PodGang that lists them
            await client.create(PODS, pod("next", 8), "default")
            await eventually(all_placed(client, ["next"]))
            await client.delete(PODS, "next", "default", grace=0)
            await client.create(GANGS, gang("g", {"w": names}), "default")
        await eventually(all_placed(client, names))
        await assert_nothing_twice(client)


async def test_a_gang_with_pods_to_spare_is_not_complete_before_it_is_bound() -> None:
    """One of two pods that it needs is never bound; a third, beyond its minimum, has no place."""
    settings = Settings(half_after=60)
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")

        async def reject(request: Request) -> Reply | None:
            if not request.path.endswith("/g-1/binding"):
                return None
            return Reply(403, b'{"kind":"Status","code":403,"message":"a policy says no"}', {})

        async with disturbed(cluster, settings) as way:
            way.before = reject
            await create_spare(client)
            await eventually(bound_once(client, "g-0"))
            await settle(130)
            assert await find(client, PODS, "g-0") is None


async def test_a_partial_gang_with_pods_to_spare_is_released_after_a_restart() -> None:
    settings = Settings(half_after=60)
    async with a_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")

        async def reject(request: Request) -> Reply | None:
            if not request.path.endswith("/g-1/binding"):
                return None
            return Reply(403, b'{"kind":"Status","code":403,"message":"a policy says no"}', {})

        for _ in range(2):
            async with disturbed(cluster, settings) as way:
                way.before = reject
                if await find(client, PODS, "g-0") is None:
                    await create_spare(client)
                await eventually(bound_once(client, "g-0"))
                await settle(20)
        async with disturbed(cluster, settings) as way:
            way.before = reject
            await settle(130)
            assert await find(client, PODS, "g-0") is None


async def create_spare(client: Client) -> None:
    """A gang of which two pods are needed and have a place each; a third finds none."""
    names = ["g-0", "g-1", "g-2"]
    for name in names:
        await client.create(PODS, pod(name, 8, of="g"), "default")
    body = gang("g", {"w": names})
    body["spec"]["podgroups"][0]["minReplicas"] = 2
    await client.create(GANGS, body, "default")


def bound_once(client: Client, name: str) -> Any:
    return all_placed(client, [name])


SAYS_NO = b'{"kind":"Status","code":400,"reason":"BadRequest","message":"the plug-in says no"}'


@pytest.mark.parametrize("code", [400, 403, 413, 422])
async def test_a_rejected_binding_is_told_and_another_node_tried(code: int) -> None:
    async with a_cluster(fleet(2)) as cluster, disturbed(cluster) as way:
        client = cluster.client("tester")
        asked: list[str] = []

        async def reject(request: Request) -> Reply | None:
            if is_binding(request):
                asked.append(json.loads(request.body)["target"]["name"])
                if asked[-1] == asked[0]:
                    return Reply(code, SAYS_NO.replace(b"400", b"%d" % code), {})
            return None

        way.before = reject
        await client.create(PODS, pod("p"), "default")
        await eventually(all_placed(client, ["p"]), within=30)
        assert (await nodes_of(client))["p"] != asked[0]
        assert len(asked) == 2
        told = [each for each in await events_of(client, "p") if "rejected" in each["message"]]
        assert [each["reason"] for each in told] == ["FailedScheduling"]
        assert "the plug-in says no" in told[0]["message"]


@pytest.mark.parametrize("code", [400, 500])
async def test_a_binding_that_is_rejected_everywhere_says_so_and_is_tried_less_and_less(
    code: int,
) -> None:
    async with a_cluster(fleet(2)) as cluster, disturbed(cluster) as way:
        client = cluster.client("tester")
        await make_priority(client, "high", 1000)
        await client.create(PODS, pod("low", 8), "default")
        await eventually(all_placed(client, ["low"]))
        asked: list[str] = []

        async def reject(request: Request) -> Reply | None:
            if not is_binding(request) or "/p/" not in request.path:
                return None
            asked.append(json.loads(request.body)["target"]["name"])
            return Reply(code, SAYS_NO.replace(b"400", b"%d" % code), {})

        way.before = reject
        await client.create(PODS, pod("p", 8, priorityClassName="high"), "default")

        async def told() -> bool:
            return (await condition_of(client, "p")).get("reason") == "SchedulerError"

        await eventually(told, within=120)
        await settle(300)
        assert len(asked) <= (30 if code == 400 else 150)
        assert "the plug-in says no" in (await condition_of(client, "p"))["message"]
        assert (await nodes_of(client))["low"], "nobody is evicted for a pod that is rejected"
        await client.create(PODS, pod("next", 8), "default")
        await eventually(all_placed(client, ["next"]), within=120)
        way.before = None
        await client.delete(PODS, "next", "default", grace=0)
        await eventually(all_placed(client, ["p"]), within=180)


async def condition_of(client: Client, name: str) -> dict[str, Any]:
    """What a pod says of its place."""
    found: dict[str, Any] = await client.get(PODS, name, "default")
    conditions = found.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


async def events_of(client: Client, name: str) -> list[dict[str, Any]]:
    listing = await client.list(EVENTS, "default")
    return [
        {**each, "message": each.get("note") or each.get("message", "")}
        for each in listing.items
        if (each.get("regarding") or each.get("involvedObject", {})).get("name") == name
    ]
