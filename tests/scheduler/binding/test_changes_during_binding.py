"""Changes of pods, nodes and the API server while a gang is being bound."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.kube import Client, ConnectionFailed
from kilonova.kube.client.transport import Reply, Request
from kilonova.local.cluster import EmbeddedCluster
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import NODES, PODS, advance_time, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    GANGS,
    QUEUES,
    are_all_placed,
    create_gang,
    embedded_cluster,
    fleet,
    nodes_by_pod,
    pod,
    scheduled_cluster,
)
from tests.scheduler.harness.fault_injection import (
    InterceptedTransport,
    assert_no_double_allocation,
    is_binding,
    killed_scheduler,
    transport_of,
)

pytestmark = virtual_time


@asynccontextmanager
async def intercepted_scheduler(
    cluster: EmbeddedCluster, settings: SchedulerSettings | None = None
) -> AsyncGenerator[InterceptedTransport]:
    """A cluster and a scheduler whose requests a test can intercept."""
    transport = InterceptedTransport(transport_of(cluster))
    async with killed_scheduler(transport, settings):
        yield transport


async def test_gang_is_completed_when_the_server_comes_back() -> None:
    async with embedded_cluster(fleet(2)) as cluster, intercepted_scheduler(cluster) as transport:
        client = cluster.client("tester")

        async def go_away_at_third(request: Request) -> None:
            if is_binding(request) and sum(map(is_binding, transport.sent)) == 2:
                transport.is_unreachable = True
                raise ConnectionFailed("cut off")

        transport.intercept = go_away_at_third
        names = await create_gang(client, "g", 4, gpus=4)
        await advance_time(30)
        assert sum(map(bool, (await nodes_by_pod(client)).values())) == 2
        transport.intercept, transport.is_unreachable = None, False
        await wait_for_condition(are_all_placed(client, names))
        await assert_no_double_allocation(client)


async def test_binding_with_a_lost_response_counts() -> None:
    async with embedded_cluster(fleet(1)) as cluster, intercepted_scheduler(cluster) as transport:
        client = cluster.client("tester")
        lost: list[Request] = []

        async def lose_answer(request: Request) -> Reply | None:
            if not is_binding(request) or lost:
                return None
            lost.append(request)
            await transport_of(cluster).send(request)
            return Reply(504, b'{"kind":"Status","code":504,"message":"timeout"}', {})

        transport.intercept = lose_answer
        names = await create_gang(client, "g", 2, gpus=4)
        await wait_for_condition(are_all_placed(client, names))
        await client.create(PODS, pod("late", 1), "default")
        await advance_time(30)
        assert (await nodes_by_pod(client))["late"] == ""
        await assert_no_double_allocation(client)


async def test_pod_bound_by_another_scheduler_stays_and_the_rest_is_placed() -> None:
    async with embedded_cluster(fleet(3)) as cluster, intercepted_scheduler(cluster) as transport:
        client = cluster.client("tester")
        deleted_first: list[str] = []

        async def bind_elsewhere(request: Request) -> None:
            if is_binding(request) and not deleted_first:
                name = request.path.split("/")[-2]
                deleted_first.append(name)
                node = json.loads(request.body)["target"]["name"]
                other = next(f"node-{index}" for index in range(3) if f"node-{index}" != node)
                await client.bind(name, "default", other)

        transport.intercept = bind_elsewhere
        names = await create_gang(client, "g", 2, gpus=8)
        await wait_for_condition(are_all_placed(client, names))
        await advance_time(10)
        await assert_no_double_allocation(client)
        await client.create(PODS, pod("last", 8), "default")
        await wait_for_condition(are_all_placed(client, ["last"]))
        await assert_no_double_allocation(client)


async def test_failing_bindings_are_retried_with_backoff() -> None:
    async with embedded_cluster(fleet(1)) as cluster, intercepted_scheduler(cluster) as transport:
        client = cluster.client("tester")
        rejection_times: list[float] = []

        async def reject(request: Request) -> Reply | None:
            if not is_binding(request):
                return None
            rejection_times.append(asyncio.get_running_loop().time())
            return Reply(403, b'{"kind":"Status","code":403,"message":"denied by policy"}', {})

        transport.intercept = reject
        await client.create(PODS, pod("p"), "default")
        await advance_time(300)
        assert 5 <= len(rejection_times) <= 25
        transport.intercept = None
        await wait_for_condition(are_all_placed(client, ["p"]), within=120)


async def test_gang_is_bound_wholly_or_not_when_a_pod_is_deleted_during_binding() -> None:
    async with embedded_cluster(fleet(2)) as cluster, intercepted_scheduler(cluster) as transport:
        client = cluster.client("tester")
        deleted: list[str] = []

        async def delete_one(request: Request) -> None:
            if is_binding(request) and not deleted:
                deleted.append("g-3")
                await client.delete(PODS, "g-3", "default", grace_period_seconds=0)

        transport.intercept = delete_one
        names = await create_gang(client, "g", 4, gpus=4)
        await advance_time(20)
        await client.create(PODS, pod("g-3", 4, gang="g"), "default")
        await wait_for_condition(are_all_placed(client, names))
        await assert_no_double_allocation(client)


async def test_partial_gang_is_evicted_when_its_pod_does_not_return() -> None:
    settings = SchedulerSettings(partial_gang_timeout=30)
    async with (
        embedded_cluster(fleet(2)) as cluster,
        intercepted_scheduler(cluster, settings) as transport,
    ):
        client = cluster.client("tester")

        async def delete_one(request: Request) -> None:
            if is_binding(request) and request.path.endswith("/g-0/binding"):
                await client.delete(PODS, "g-3", "default", grace_period_seconds=0)

        transport.intercept = delete_one
        await create_gang(client, "g", 4, gpus=4)
        await advance_time(60)
        assert [name for name, node in (await nodes_by_pod(client)).items() if node] == []


async def test_pods_move_to_other_nodes_when_a_node_is_removed_during_binding() -> None:
    async with embedded_cluster(fleet(3)) as cluster, intercepted_scheduler(cluster) as transport:
        client = cluster.client("tester")
        deleted: list[str] = []

        async def remove_node(request: Request) -> None:
            if is_binding(request) and not deleted:
                node = json.loads(request.body)["target"]["name"]
                deleted.append(node)
                await client.delete(NODES, node)
                await advance_time(1)

        transport.intercept = remove_node
        names = await create_gang(client, "g", 2, gpus=8)

        async def all_on_known_nodes() -> bool:
            nodes = await nodes_by_pod(client)
            existing = {each["metadata"]["name"] for each in (await client.list(NODES)).items}
            for name in [name for name in names if name not in nodes]:
                await client.create(PODS, pod(name, 8, gang="g"), "default")
            return all(nodes.get(name) in existing for name in names)

        await wait_for_condition(all_on_known_nodes, within=600)
        await assert_no_double_allocation(client)


async def test_capacity_taken_by_another_scheduler_is_replaced() -> None:
    async with embedded_cluster(fleet(2)) as cluster, intercepted_scheduler(cluster) as transport:
        client = cluster.client("tester")
        taken: list[str] = []

        async def take_capacity(request: Request) -> None:
            """Another scheduler binds first, because our first binding is delayed."""
            if is_binding(request) and not taken:
                taken.append(json.loads(request.body)["target"]["name"])
                body = pod("foreign", 8, schedulerName="other", nodeName=taken[0])
                await client.create(PODS, body, "default")
                await advance_time(1)
                raise ConnectionFailed("cut off")

        transport.intercept = take_capacity
        await client.create(PODS, pod("p", 8), "default")
        await wait_for_condition(are_all_placed(client, ["p"]))
        await assert_no_double_allocation(client)
        assert (await nodes_by_pod(client))["p"] not in taken


async def test_two_independent_schedulers_resolve_double_allocation() -> None:
    """One scheduler binds by name only, without checking capacity."""
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        for index in range(8):
            node = f"node-{index % 2}"
            foreign = pod(f"f{index}", 1, schedulerName="other", nodeName=node)
            await asyncio.gather(
                client.create(PODS, foreign, "default"),
                client.create(PODS, pod(f"p{index}", 1), "default"),
            )
        await client.create(PODS, pod("last", 1), "default")
        await wait_for_condition(are_all_placed(client, [f"p{index}" for index in range(8)]))
        await advance_time(30)
        await assert_no_double_allocation(client)
        assert (await nodes_by_pod(client))["last"] == ""


async def test_gang_over_its_queue_limit_is_not_unschedulable_for_autoscalers() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        limit = {"metadata": {"name": "team"}, "spec": {"limit": {"nvidia.com/gpu": 2}}}
        await client.create(QUEUES, limit)
        held = pod("held", 4)
        held["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = "team"
        await client.create(PODS, held, "default")
        await client.create(PODS, pod("large", 9), "default")

        async def is_reported() -> bool:
            return all([await pod_scheduled_reason(client, name) for name in ("held", "large")])

        await wait_for_condition(is_reported)
        assert await pod_scheduled_reason(client, "held") == "QueueLimitReached"
        assert await pod_scheduled_reason(client, "large") == "Unschedulable"
        await client.patch(QUEUES, "team", {"spec": {"limit": {"nvidia.com/gpu": 4}}})
        await wait_for_condition(are_all_placed(client, ["held"]))


async def test_pods_of_other_schedulers_in_a_gang_are_ignored() -> None:
    settings = SchedulerSettings(scheduler_names=frozenset({"ours", "ours-too"}))
    async with scheduled_cluster(fleet(2), settings) as (cluster, _):
        client = cluster.client("tester")
        theirs = await create_gang(client, "g", 2, gpus=1, schedulerName="kilonova-scheduler")
        ours = await create_gang(client, "h", 2, gpus=1, schedulerName="ours")
        await client.create(PODS, pod("lone", schedulerName="ours-too"), "default")
        await wait_for_condition(are_all_placed(client, [*ours, "lone"]))
        await advance_time(30)
        nodes = await nodes_by_pod(client)
        assert [nodes[name] for name in theirs] == ["", ""]
        found = await client.get(GANGS, "g", "default")
        assert "conditions" not in found.get("status", {})


async def pod_scheduled_reason(client: Client, name: str) -> str:
    found: dict[str, Any] = await client.get(PODS, name, "default")
    conditions = found.get("status", {}).get("conditions", [])
    return next((each["reason"] for each in conditions if each["type"] == "PodScheduled"), "")
