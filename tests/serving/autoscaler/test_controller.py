"""The autoscaler on a cluster: it scales, says why, and never without figures."""

import asyncio

from kilonova.serving.signals import GroupSignals
from tests.local.embedded_cluster import virtual_time, wait_for_condition
from tests.serving.autoscaler.scaled_cluster import running_autoscaler, scaled_cluster
from tests.serving.serving_cluster import (
    INFERENCE_SERVICES,
    SETS,
    ServingCluster,
    server_group,
    serving_cluster,
)

pytestmark = virtual_time

BETWEEN_0_AND_5 = {"minReplicas": 0, "maxReplicas": 5, "scaleToZero": {"idleAfter": "30s"}}


async def get_replicas(serving: ServingCluster) -> int:
    return (await serving.get(SETS, "web-model"))["spec"]["replicas"]


async def wait_for_replicas(serving: ServingCluster, number: int, within: float = 60) -> None:
    async def has_them() -> bool:
        return await get_replicas(serving) == number

    await wait_for_condition(has_them, within=within)


async def test_servers_follow_the_load_and_the_status_says_why() -> None:
    async with scaled_cluster() as scaled:
        serving = scaled.serving
        await serving.create("web", server_group(autoscaling={"maxReplicas": 5}))
        await serving.wait_for(lambda each: each.get("ready") == 1)
        scaled.load.figures = GroupSignals(in_flight=12, pending=3, requests_per_second=40.04)
        status = await serving.wait_for(lambda each: each.get("ready") == 3)
        (scaling,) = status["scaling"]
        assert (scaling["desired"], scaling["mode"]) == (3, "Demand")
        assert "over 8 × 0.8 per server → 3" in scaling["message"]
        await asyncio.sleep(5)
        scaling = await scaled.get_scaling()
        assert scaling["load"] == {"inFlight": 15, "requestsPerSecond": 40.0}
        assert scaling["decidedAt"]
        events = await serving.list_events()
        (event,) = [message for reason, message in events if reason == "ScaledUp"][-1:]
        assert event.startswith("Scaled model from ")
        assert event.endswith("over 8 × 0.8 per server → 3")
        labels = {"namespace": "default", "service": "web", "server": "model"}
        assert scaled.get_metric("kilonova_serving_desired_replicas", **labels) == 3
        assert scaled.get_metric("kilonova_serving_requests_in_flight", **labels) == 15


async def test_scale_to_zero_and_back_when_a_request_is_held() -> None:
    async with scaled_cluster() as scaled:
        serving = scaled.serving
        await serving.create("web", server_group(autoscaling=BETWEEN_0_AND_5))
        await serving.wait_for_phase("Ready")
        await serving.wait_for_phase("Idle", within=120)
        assert (await scaled.get_scaling())["mode"] == "Idle"
        assert "ScaledToZero" in [reason for reason, _ in await serving.list_events()]
        scaled.load.held = 1
        scaled.load.tell()
        await wait_for_replicas(serving, 1, within=0.5)
        await serving.wait_for_phase("Ready")
        scaling = await scaled.get_scaling()
        assert scaling["desired"] == 1


async def test_without_figures_nothing_is_removed() -> None:
    async with scaled_cluster() as scaled:
        serving = scaled.serving
        await serving.create("web", server_group(replicas=3, autoscaling=BETWEEN_0_AND_5))
        await serving.wait_for(lambda each: each.get("ready") == 3)
        scaled.load.figures = None
        await asyncio.sleep(600)
        assert await get_replicas(serving) == 3
        scaling = await scaled.get_scaling()
        assert scaling["message"] == "requests in flight are not known: keeping 3"
        assert "load" not in scaling


async def test_new_leader_removes_nothing_before_the_stabilization_is_over() -> None:
    async with serving_cluster(controllers=False) as serving:
        async with running_autoscaler(serving) as scaled:
            await serving.create("web", server_group(replicas=4, autoscaling={"maxReplicas": 5}))
            await serving.wait_for(lambda each: each.get("ready") == 4)
            await asyncio.sleep(30)
            load = scaled.load
        async with running_autoscaler(serving, load):
            await asyncio.sleep(55)
            assert await get_replicas(serving) == 4
            await wait_for_replicas(serving, 1, within=30)


async def test_paused_and_fixed_groups_are_left_alone() -> None:
    async with scaled_cluster() as scaled:
        serving = scaled.serving
        scaled.load.figures = GroupSignals(in_flight=100)
        await serving.create("web", server_group(autoscaling={"maxReplicas": 5}), paused=True)
        await serving.wait_for(lambda each: each.get("ready") == 1)
        await asyncio.sleep(30)
        assert await get_replicas(serving) == 1
        assert (await scaled.get_scaling())["mode"] == "Paused"
        await serving.patch({"paused": False, "servers": [server_group(replicas=2)]})
        await serving.wait_for(lambda each: each["scaling"][0]["mode"] == "Fixed")
        assert (await scaled.get_scaling())["message"] == "no autoscaling: 2 servers"


async def test_status_is_not_written_while_nothing_changes() -> None:
    async with scaled_cluster() as scaled:
        serving = scaled.serving
        await serving.create("web", server_group(autoscaling={"maxReplicas": 5}))
        await serving.wait_for_phase("Ready")
        await asyncio.sleep(90)
        version = await get_version(serving)
        await asyncio.sleep(300)
        assert await get_version(serving) == version


async def get_version(serving: ServingCluster) -> str:
    return (await serving.get(INFERENCE_SERVICES, "web"))["metadata"]["resourceVersion"]
