"""Decisions that become void, and bindings that fail: nothing stays booked, nobody is forgotten."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.transport import Reply, Request
from kilonova.local.cluster import Cluster
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import PODS, eventually, find, settle, virtual_time
from tests.scheduler.faults import (
    Disturbed,
    abandoned_scheduler,
    assert_nothing_twice,
    full_cluster,
    hold,
    transport_of,
)
from tests.scheduler.scheduling import (
    GANGS,
    a_cluster,
    all_placed,
    fleet,
    gang,
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
