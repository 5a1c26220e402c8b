"""Superseded decisions and failed bindings leak no capacity and forget no pod."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.client.transport import Reply, Request
from kilonova.local.cluster import EmbeddedCluster
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import (
    EVENTS,
    PODS,
    advance_time,
    find,
    virtual_time,
    wait_for_condition,
)
from tests.scheduler.harness.embedded_scheduler import (
    GANGS,
    are_all_placed,
    create_priority_class,
    embedded_cluster,
    fleet,
    gang,
    nodes_by_pod,
    pod,
    running_scheduler,
)
from tests.scheduler.harness.fault_injection import (
    InterceptedTransport,
    assert_no_double_allocation,
    full_cluster,
    is_binding,
    killed_scheduler,
    set_slow_termination,
    transport_of,
)

pytestmark = virtual_time


@asynccontextmanager
async def intercepted_scheduler(
    cluster: EmbeddedCluster, settings: SchedulerSettings | None = None
) -> AsyncGenerator[InterceptedTransport]:
    """A cluster and a scheduler whose requests a test can intercept."""
    way = InterceptedTransport(transport_of(cluster))
    async with killed_scheduler(way, settings):
        yield way


async def remove_victim_finalizers(client: Client) -> None:
    for name in ("low-0", "low-1"):
        await set_slow_termination(client, name, slow=False)


async def test_podgang_created_after_its_pod_gets_the_pod() -> None:
    async with full_cluster() as (cluster, client), running_scheduler(cluster):
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await advance_time(5)
        await client.create(GANGS, gang("g", {"w": ["chief"]}), "default")
        await advance_time(5)
        await remove_victim_finalizers(client)
        await wait_for_condition(are_all_placed(client, ["chief"]))
        await assert_no_double_allocation(client)


async def test_incomplete_podgang_withholds_no_capacity() -> None:
    """Its one pod was placed as a single pod, and waited for victims."""
    async with full_cluster() as (cluster, client), running_scheduler(cluster):
        await client.create(PODS, pod("chief", 8, priorityClassName="high"), "default")
        await advance_time(5)
        await client.create(GANGS, gang("g", {"w": ["chief", "missing"]}), "default")
        await remove_victim_finalizers(client)
        await client.create(PODS, pod("next", 8), "default")
        await wait_for_condition(are_all_placed(client, ["next"]))
        assert (await nodes_by_pod(client))["chief"] == ""


@pytest.mark.parametrize("listed", [True, False], ids=["labelled", "plain"])
async def test_deleted_podgang_leaves_no_assumed_pods(listed: bool) -> None:
    async with full_cluster() as (cluster, client), running_scheduler(cluster):
        names = ["chief-0", "chief-1"]
        for name in names:
            body = pod(name, 4, gang="g" if listed else "", priorityClassName="high")
            await client.create(PODS, body, "default")
        await client.create(GANGS, gang("g", {"w": names}), "default")
        await advance_time(5)
        await client.delete(GANGS, "g", "default")
        await remove_victim_finalizers(client)
        if listed:  # its pods wait for a PodGang that lists them
            await client.create(PODS, pod("next", 8), "default")
            await wait_for_condition(are_all_placed(client, ["next"]))
            await client.delete(PODS, "next", "default", grace_period_seconds=0)
            await client.create(GANGS, gang("g", {"w": names}), "default")
        await wait_for_condition(are_all_placed(client, names))
        await assert_no_double_allocation(client)


async def test_gang_with_surplus_pods_is_not_complete_before_it_is_bound() -> None:
    """One of two required pods is never bound; a third, a surplus pod, has no capacity."""
    settings = SchedulerSettings(partial_gang_timeout=60)
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")

        async def reject(request: Request) -> Reply | None:
            if not request.path.endswith("/g-1/binding"):
                return None
            return Reply(403, b'{"kind":"Status","code":403,"message":"denied by policy"}', {})

        async with intercepted_scheduler(cluster, settings) as way:
            way.intercept = reject
            await create_gang_with_surplus_pods(client)
            await wait_for_condition(bind_first_pod(client, "g-0"))
            await advance_time(130)
            assert await find(client, PODS, "g-0") is None


async def test_partial_gang_with_surplus_pods_is_evicted_after_a_restart() -> None:
    settings = SchedulerSettings(partial_gang_timeout=60)
    async with embedded_cluster(fleet(2)) as cluster:
        client = cluster.client("tester")

        async def reject(request: Request) -> Reply | None:
            if not request.path.endswith("/g-1/binding"):
                return None
            return Reply(403, b'{"kind":"Status","code":403,"message":"denied by policy"}', {})

        for _ in range(2):
            async with intercepted_scheduler(cluster, settings) as way:
                way.intercept = reject
                if await find(client, PODS, "g-0") is None:
                    await create_gang_with_surplus_pods(client)
                await wait_for_condition(bind_first_pod(client, "g-0"))
                await advance_time(20)
        async with intercepted_scheduler(cluster, settings) as way:
            way.intercept = reject
            await advance_time(130)
            assert await find(client, PODS, "g-0") is None


async def create_gang_with_surplus_pods(client: Client) -> None:
    """A gang whose two required pods are placed; a third pod lacks capacity."""
    names = ["g-0", "g-1", "g-2"]
    for name in names:
        await client.create(PODS, pod(name, 8, gang="g"), "default")
    body = gang("g", {"w": names})
    body["spec"]["podgroups"][0]["minReplicas"] = 2
    await client.create(GANGS, body, "default")


def bind_first_pod(client: Client, name: str) -> Any:
    return are_all_placed(client, [name])


BAD_REQUEST_BODY = (
    b'{"kind":"Status","code":400,"reason":"BadRequest","message":"denied by the plugin"}'
)


@pytest.mark.parametrize("code", [400, 403, 413, 422])
async def test_rejected_binding_is_reported_and_another_node_tried(code: int) -> None:
    async with embedded_cluster(fleet(2)) as cluster, intercepted_scheduler(cluster) as way:
        client = cluster.client("tester")
        requested_nodes: list[str] = []

        async def reject(request: Request) -> Reply | None:
            if is_binding(request):
                requested_nodes.append(json.loads(request.body)["target"]["name"])
                if requested_nodes[-1] == requested_nodes[0]:
                    return Reply(code, BAD_REQUEST_BODY.replace(b"400", b"%d" % code), {})
            return None

        way.intercept = reject
        await client.create(PODS, pod("p"), "default")
        await wait_for_condition(are_all_placed(client, ["p"]), within=30)
        assert (await nodes_by_pod(client))["p"] != requested_nodes[0]
        assert len(requested_nodes) == 2
        rejections = [
            each for each in await events_of(client, "p") if "rejected" in each["message"]
        ]
        assert [each["reason"] for each in rejections] == ["FailedScheduling"]
        assert "denied by the plugin" in rejections[0]["message"]


@pytest.mark.parametrize("code", [400, 500])
async def test_binding_rejected_everywhere_is_reported_and_backs_off(
    code: int,
) -> None:
    async with embedded_cluster(fleet(2)) as cluster, intercepted_scheduler(cluster) as way:
        client = cluster.client("tester")
        await create_priority_class(client, "high", 1000)
        await client.create(PODS, pod("low", 8), "default")
        await wait_for_condition(are_all_placed(client, ["low"]))
        requested_nodes: list[str] = []

        async def reject(request: Request) -> Reply | None:
            if not is_binding(request) or "/p/" not in request.path:
                return None
            requested_nodes.append(json.loads(request.body)["target"]["name"])
            return Reply(code, BAD_REQUEST_BODY.replace(b"400", b"%d" % code), {})

        way.intercept = reject
        await client.create(PODS, pod("p", 8, priorityClassName="high"), "default")

        async def is_reported() -> bool:
            return (await condition_of(client, "p")).get("reason") == "SchedulerError"

        await wait_for_condition(is_reported, within=120)
        await advance_time(300)
        assert len(requested_nodes) <= (30 if code == 400 else 150)
        assert "denied by the plugin" in (await condition_of(client, "p"))["message"]
        assert (await nodes_by_pod(client))["low"], "no pod is evicted for a rejected binding"
        await client.create(PODS, pod("next", 8), "default")
        await wait_for_condition(are_all_placed(client, ["next"]), within=120)
        way.intercept = None
        await client.delete(PODS, "next", "default", grace_period_seconds=0)
        await wait_for_condition(are_all_placed(client, ["p"]), within=180)


async def condition_of(client: Client, name: str) -> dict[str, Any]:
    """The message of a pod's `PodScheduled` condition."""
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
