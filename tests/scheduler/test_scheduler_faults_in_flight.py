"""What happens to pods, nodes and the server while a gang is being bound."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.kube import Client, ConnectionFailed
from kilonova.kube.transport import Reply, Request
from kilonova.local.cluster import Cluster
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import NODES, PODS, eventually, settle, virtual_time
from tests.scheduler.faults import (
    Disturbed,
    abandoned_scheduler,
    assert_nothing_twice,
    is_binding,
    transport_of,
)
from tests.scheduler.scheduling import (
    GANGS,
    QUEUES,
    a_cluster,
    all_placed,
    create_gang,
    fleet,
    nodes_of,
    pod,
    scheduling,
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


async def test_a_gang_is_finished_when_the_server_comes_back() -> None:
    async with a_cluster(fleet(2)) as cluster, disturbed(cluster) as way:
        client = cluster.client("tester")

        async def go_away_at_third(request: Request) -> None:
            if is_binding(request) and sum(map(is_binding, way.sent)) == 2:
                way.away = True
                raise ConnectionFailed("cut off")

        way.before = go_away_at_third
        names = await create_gang(client, "g", 4, gpus=4)
        await settle(30)
        assert sum(map(bool, (await nodes_of(client)).values())) == 2
        way.before, way.away = None, False
        await eventually(all_placed(client, names))
        await assert_nothing_twice(client)


async def test_a_binding_whose_answer_was_lost_counts() -> None:
    async with a_cluster(fleet(1)) as cluster, disturbed(cluster) as way:
        client = cluster.client("tester")
        lost: list[Request] = []

        async def lose_answer(request: Request) -> Reply | None:
            if not is_binding(request) or lost:
                return None
            lost.append(request)
            await transport_of(cluster).send(request)
            return Reply(504, b'{"kind":"Status","code":504,"message":"timeout"}', {})

        way.before = lose_answer
        names = await create_gang(client, "g", 2, gpus=4)
        await eventually(all_placed(client, names))
        await client.create(PODS, pod("late", 1), "default")
        await settle(30)
        assert (await nodes_of(client))["late"] == ""
        await assert_nothing_twice(client)


async def test_a_pod_that_somebody_else_bound_stays_there_and_the_rest_is_placed() -> None:
    async with a_cluster(fleet(3)) as cluster, disturbed(cluster) as way:
        client = cluster.client("tester")
        moved: list[str] = []

        async def bind_elsewhere(request: Request) -> None:
            if is_binding(request) and not moved:
                name = request.path.split("/")[-2]
                moved.append(name)
                node = json.loads(request.body)["target"]["name"]
                other = next(f"node-{index}" for index in range(3) if f"node-{index}" != node)
                await client.bind(name, "default", other)

        way.before = bind_elsewhere
        names = await create_gang(client, "g", 2, gpus=8)
        await eventually(all_placed(client, names))
        await settle(10)
        await assert_nothing_twice(client)
        await client.create(PODS, pod("last", 8), "default")
        await eventually(all_placed(client, ["last"]))
        await assert_nothing_twice(client)


async def test_bindings_that_are_refused_again_and_again_are_tried_less_and_less() -> None:
    async with a_cluster(fleet(1)) as cluster, disturbed(cluster) as way:
        client = cluster.client("tester")
        refused: list[float] = []

        async def refuse(request: Request) -> Reply | None:
            if not is_binding(request):
                return None
            refused.append(asyncio.get_running_loop().time())
            return Reply(403, b'{"kind":"Status","code":403,"message":"a policy says no"}', {})

        way.before = refuse
        await client.create(PODS, pod("p"), "default")
        await settle(300)
        assert 5 <= len(refused) <= 25
        way.before = None
        await eventually(all_placed(client, ["p"]), within=120)


async def test_when_a_pod_goes_in_flight_nothing_of_its_gang_is_bound_or_all_of_it_soon() -> None:
    async with a_cluster(fleet(2)) as cluster, disturbed(cluster) as way:
        client = cluster.client("tester")
        gone: list[str] = []

        async def delete_one(request: Request) -> None:
            if is_binding(request) and not gone:
                gone.append("g-3")
                await client.delete(PODS, "g-3", "default", grace=0)

        way.before = delete_one
        names = await create_gang(client, "g", 4, gpus=4)
        await settle(20)
        await client.create(PODS, pod("g-3", 4, of="g"), "default")
        await eventually(all_placed(client, names))
        await assert_nothing_twice(client)


async def test_when_a_pod_stays_away_what_its_gang_has_is_given_back() -> None:
    settings = Settings(half_after=30)
    async with a_cluster(fleet(2)) as cluster, disturbed(cluster, settings) as way:
        client = cluster.client("tester")

        async def delete_one(request: Request) -> None:
            if is_binding(request) and request.path.endswith("/g-0/binding"):
                await client.delete(PODS, "g-3", "default", grace=0)

        way.before = delete_one
        await create_gang(client, "g", 4, gpus=4)
        await settle(60)
        assert [name for name, node in (await nodes_of(client)).items() if node] == []


async def test_when_a_node_goes_in_flight_its_pods_go_elsewhere() -> None:
    async with a_cluster(fleet(3)) as cluster, disturbed(cluster) as way:
        client = cluster.client("tester")
        gone: list[str] = []

        async def remove_node(request: Request) -> None:
            if is_binding(request) and not gone:
                node = json.loads(request.body)["target"]["name"]
                gone.append(node)
                await client.delete(NODES, node)
                await settle(1)

        way.before = remove_node
        names = await create_gang(client, "g", 2, gpus=8)

        async def all_on_known_nodes() -> bool:
            nodes = await nodes_of(client)
            there = {each["metadata"]["name"] for each in (await client.list(NODES)).items}
            for name in [name for name in names if name not in nodes]:
                await client.create(PODS, pod(name, 8, of="g"), "default")
            return all(nodes.get(name) in there for name in names)

        await eventually(all_on_known_nodes, within=600)
        await assert_nothing_twice(client)


async def test_room_that_another_scheduler_took_meanwhile_is_looked_for_elsewhere() -> None:
    async with a_cluster(fleet(2)) as cluster, disturbed(cluster) as way:
        client = cluster.client("tester")
        taken: list[str] = []

        async def take_room(request: Request) -> None:
            """Somebody else is faster, as our first binding has some difficulty to arrive."""
            if is_binding(request) and not taken:
                taken.append(json.loads(request.body)["target"]["name"])
                body = pod("foreign", 8, schedulerName="other", nodeName=taken[0])
                await client.create(PODS, body, "default")
                await settle(1)
                raise ConnectionFailed("cut off")

        way.before = take_room
        await client.create(PODS, pod("p", 8), "default")
        await eventually(all_placed(client, ["p"]))
        await assert_nothing_twice(client)
        assert (await nodes_of(client))["p"] not in taken


async def test_two_schedulers_that_do_not_know_of_each_other_double_nothing_for_long() -> None:
    """One of them binds by name only, without asking whether there is room."""
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        for index in range(8):
            node = f"node-{index % 2}"
            foreign = pod(f"f{index}", 1, schedulerName="other", nodeName=node)
            await asyncio.gather(
                client.create(PODS, foreign, "default"),
                client.create(PODS, pod(f"p{index}", 1), "default"),
            )
        await client.create(PODS, pod("last", 1), "default")
        await eventually(all_placed(client, [f"p{index}" for index in range(8)]))
        await settle(30)
        await assert_nothing_twice(client)
        assert (await nodes_of(client))["last"] == ""


async def test_a_gang_that_only_its_queue_holds_back_is_no_reason_to_buy_nodes() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        limit = {"metadata": {"name": "team"}, "spec": {"limit": {"nvidia.com/gpu": 2}}}
        await client.create(QUEUES, limit)
        held = pod("held", 4)
        held["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = "team"
        await client.create(PODS, held, "default")
        await client.create(PODS, pod("large", 9), "default")

        async def told() -> bool:
            return all([await reason(client, name) for name in ("held", "large")])

        await eventually(told)
        assert await reason(client, "held") == "QueueLimit"
        assert await reason(client, "large") == "Unschedulable"
        await client.patch(QUEUES, "team", {"spec": {"limit": {"nvidia.com/gpu": 4}}})
        await eventually(all_placed(client, ["held"]))


async def test_pods_of_other_schedulers_are_let_be_even_in_a_gang() -> None:
    settings = Settings(serves=frozenset({"ours", "ours-too"}))
    async with scheduling(fleet(2), settings) as (cluster, _):
        client = cluster.client("tester")
        theirs = await create_gang(client, "g", 2, gpus=1, schedulerName="kilonova-scheduler")
        ours = await create_gang(client, "h", 2, gpus=1, schedulerName="ours")
        await client.create(PODS, pod("lone", schedulerName="ours-too"), "default")
        await eventually(all_placed(client, [*ours, "lone"]))
        await settle(30)
        nodes = await nodes_of(client)
        assert [nodes[name] for name in theirs] == ["", ""]
        found = await client.get(GANGS, "g", "default")
        assert "conditions" not in found.get("status", {})


async def reason(client: Client, name: str) -> str:
    found: dict[str, Any] = await client.get(PODS, name, "default")
    conditions = found.get("status", {}).get("conditions", [])
    return next((each["reason"] for each in conditions if each["type"] == "PodScheduled"), "")
