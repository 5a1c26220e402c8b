"""The model loader, with servers that fail, hang and restart."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tests.local.embedded_cluster import advance_time, wait_for_condition
from tests.serving.models.loader_cluster import (
    NAMESPACE,
    PODS,
    SERVICE,
    SERVICES,
    TIMES,
    LoaderCluster,
    loader_cluster,
    running_loader,
)
from tests.serving.models.scripted_server import ScriptedServer, build_servers


def model(name: str, memory: str = "6Gi", **fields: Any) -> dict[str, Any]:
    return {"name": name, "memory": memory, **fields}


@asynccontextmanager
async def cluster_with(
    servers: list[ScriptedServer],
    models: list[dict[str, Any]],
    memory: str | None = "10Gi",
    *,
    with_loader: bool = True,
) -> AsyncGenerator[LoaderCluster]:
    """A service with running servers: server-0, server-1, …"""
    for each in servers:
        await each.start()
    try:
        async with loader_cluster(with_loader=with_loader) as cluster:
            ports = {"http": servers[0].port}
            await cluster.create_service(models, ports=ports, memory=memory)
            for number, each in enumerate(servers):
                await cluster.create_server(f"server-{number}", each.address)
            yield cluster
    finally:
        for each in servers:
            await each.stop()


async def test_models_are_spread_and_published() -> None:
    servers = build_servers(2, {"cat", "dog", "bird"})
    async with cluster_with(servers, [model("cat"), model("dog")]) as cluster:
        await cluster.wait_loaded(**{"server-0": ["cat"], "server-1": ["dog"]})
        assert servers[0].loaded == {"cat"}
        assert servers[1].loaded == {"dog"}

        async def is_reported() -> bool:
            return ("ModelLoaded", "Loaded model cat on server-0") in await cluster.list_events()

        await wait_for_condition(is_reported, within=10)


async def test_model_that_is_declared_no_longer_is_unloaded_and_others_are_left_alone() -> None:
    servers = build_servers(1, {"cat", "dog", "own"})
    servers[0].loaded.add("own")
    async with cluster_with(servers, [model("cat", "1Gi"), model("dog", "1Gi")]) as cluster:
        await cluster.wait_loaded(**{"server-0": ["cat", "dog", "own"]})
        await cluster.declare([model("dog", "1Gi")])
        await cluster.wait_loaded(**{"server-0": ["dog", "own"]})

        async def is_unloaded() -> bool:
            return servers[0].loaded == {"dog", "own"}

        await wait_for_condition(is_unloaded, within=10)
        assert servers[0].calls[-1] == ("unload", "cat")


async def test_gateway_stops_routing_before_a_model_is_unloaded() -> None:
    servers = build_servers(1, {"cat"})
    async with cluster_with(servers, [model("cat")]) as cluster:
        await cluster.wait_loaded(**{"server-0": ["cat"]})
        await cluster.declare([])
        await cluster.wait_loaded(**{"server-0": []})
        assert servers[0].loaded == {"cat"}, "the annotation is changed first"

        async def is_unloaded() -> bool:
            return not servers[0].loaded

        await wait_for_condition(is_unloaded, within=10)


async def test_model_that_fails_is_explained_and_tried_again_and_others_go_on() -> None:
    servers = build_servers(1, {"cat", "dog"}, failing={"cat": "out of memory on device 0"})
    models = [model("cat", "1Gi"), model("dog", "1Gi")]
    async with cluster_with(servers, models) as cluster:
        await cluster.wait_loaded(**{"server-0": ["dog"]})
        await cluster.wait_state(
            "server-0",
            lambda states: (
                states.get("cat") == {"state": "Failed", "message": "out of memory on device 0"}
            ),
        )
        expected = (
            "ModelLoadFailed",
            "server-0 could not load model cat: out of memory on device 0",
        )

        async def is_reported() -> bool:
            return expected in await cluster.list_events()

        await wait_for_condition(is_reported, within=10)
        servers[0].failing.clear()
        await cluster.wait_loaded(**{"server-0": ["cat", "dog"]})
        await cluster.wait_state("server-0", lambda states: states["cat"] == {"state": "Loaded"})


async def test_load_that_hangs_ends_and_other_servers_go_on() -> None:
    servers = build_servers(2, {"cat", "dog"})
    servers[0].hanging.add("cat")
    async with cluster_with(servers, [model("cat", minCopies=2)], None) as cluster:
        await cluster.wait_loaded(**{"server-1": ["cat"]})
        await cluster.wait_state(
            "server-0",
            lambda states: states.get("cat", {}).get("message") == "it was not loaded within 0.5 s",
        )
        servers[0].hanging.clear()
        await cluster.wait_loaded(**{"server-0": ["cat"], "server-1": ["cat"]})


async def test_restarted_server_loads_its_models_again() -> None:
    servers = build_servers(1, {"cat"})
    async with cluster_with(servers, [model("cat")]) as cluster:
        await cluster.wait_loaded(**{"server-0": ["cat"]})
        await servers[0].stop()
        await cluster.wait_loaded(**{"server-0": []})
        await servers[0].start()
        await cluster.count_restart("server-0", 1)
        await cluster.wait_loaded(**{"server-0": ["cat"]})
        assert servers[0].calls == [("load", "cat"), ("load", "cat")]


async def test_models_of_a_server_that_does_not_answer_are_placed_elsewhere() -> None:
    servers = build_servers(2, {"cat"})
    async with cluster_with(servers, [model("cat")]) as cluster:
        await cluster.wait_loaded(**{"server-0": ["cat"], "server-1": []})
        servers[0].answers = False
        await cluster.wait_loaded(**{"server-1": ["cat"]})
        assert await cluster.get_loaded("server-0") == ["cat"], "what it has is not known"


async def test_models_of_a_deleted_server_are_placed_elsewhere() -> None:
    servers = build_servers(2, {"cat", "dog"})
    models = [model("cat", "4Gi"), model("dog", "4Gi")]
    async with cluster_with(servers, models) as cluster:
        await cluster.wait_loaded(**{"server-0": ["cat"], "server-1": ["dog"]})
        await cluster.client.delete(PODS, "server-0", NAMESPACE)
        await cluster.wait_loaded(**{"server-1": ["cat", "dog"]})


async def test_model_on_demand_is_loaded_when_requests_wait_and_evicted_when_idle() -> None:
    servers = build_servers(1, {"cat", "dog"})
    models = [model("cat", minCopies=0), model("dog", minCopies=0)]
    async with cluster_with(servers, models) as cluster:
        await cluster.wait_loaded(**{"server-0": []})
        cluster.requests.request("cat")
        await cluster.wait_loaded(**{"server-0": ["cat"]})
        cluster.requests.request("dog")
        await cluster.wait_state("server-0", lambda states: "dog" in states)
        states = await cluster.get_states("server-0")
        assert states["dog"]["state"] == "Waiting"
        assert "no server has" in states["dog"]["message"]
        assert servers[0].loaded == {"cat"}, "it was used a moment ago"
        assert servers[0].most_loaded == 1


async def test_next_leader_goes_on_where_the_former_one_stopped() -> None:
    servers = build_servers(2, {"cat", "dog"})
    models = [model("cat", "1Gi"), model("dog", "1Gi")]
    async with cluster_with(servers, models, with_loader=False) as cluster:
        servers[0].hanging.add("cat")
        async with running_loader(cluster):
            await cluster.wait_loaded(**{"server-1": ["dog"]})
            assert ("load", "cat") in servers[0].calls
            # It ends while one server loads a model, and the other one is to unload one.
            await cluster.declare([model("cat", "1Gi")])
            await cluster.wait_loaded(**{"server-1": []})
        assert servers[1].loaded == {"dog"}
        servers[0].hanging.clear()
        async with running_loader(cluster):
            await cluster.wait_loaded(**{"server-0": ["cat"], "server-1": []})

            async def is_unloaded() -> bool:
                return not servers[1].loaded

            await wait_for_condition(is_unloaded, within=10)


async def test_hot_model_gets_another_copy() -> None:
    servers = build_servers(2, {"cat"})
    async with cluster_with(servers, [model("cat")]) as cluster:
        await cluster.wait_loaded(**{"server-0": ["cat"], "server-1": []})

        async def is_copied() -> bool:
            # A hundred requests at the same time, all the time.
            servers[0].requests["cat"] = servers[0].requests.get("cat", 0) + 100
            servers[0].busy_ns["cat"] = servers[0].busy_ns.get("cat", 0) + 100 * 50_000_000
            return servers[1].loaded == {"cat"}

        await wait_for_condition(is_copied, within=15)
        await cluster.wait_loaded(**{"server-0": ["cat"], "server-1": ["cat"]})


async def test_server_of_a_group_without_placement_is_asked_no_more() -> None:
    servers = build_servers(1, {"cat"})
    async with cluster_with(servers, [model("cat")]) as cluster:
        await cluster.wait_loaded(**{"server-0": ["cat"]})
        found = await cluster.client.get(SERVICES, SERVICE, NAMESPACE)
        group = found["spec"]["servers"][0]
        del group["modelPlacement"]
        await cluster.client.patch(SERVICES, SERVICE, {"spec": {"servers": [group]}}, NAMESPACE)

        async def is_left_alone() -> bool:
            asked = servers[0].asked
            await advance_time(5 * TIMES.poll)
            return servers[0].asked == asked

        await wait_for_condition(is_left_alone)
        assert servers[0].calls == [("load", "cat")]
