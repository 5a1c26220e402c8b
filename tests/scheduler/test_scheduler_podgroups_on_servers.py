"""PodGroups of coscheduling on both servers."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from kilonova.cli.install import install_definitions
from kilonova.scheduler.scheduler import build_scheduler
from kilonova.scheduler.settings import Settings
from tests.conftest import Api
from tests.local.embedded_cluster import PODS, eventually
from tests.scheduler.podgroups import COSCHEDULED, coscheduled, install_coscheduling, labelled
from tests.scheduler.process.scheduler_ground import Ground, ground
from tests.workloads.ground import parts_running


@asynccontextmanager
async def scheduled_ground(api: Api, nodes: int) -> AsyncGenerator[Ground]:
    """Some nodes, and our scheduler beside them."""
    async with ground(api, nodes) as place:
        await install_definitions(place.client)
        await install_coscheduling(place.client)
        scheduler = build_scheduler(place.client, Settings())
        async with parts_running(scheduler.parts, scheduler.leading):
            yield place


async def test_a_group_starts_together_once_there_is_room_for_its_minimum(api: Api) -> None:
    async with scheduled_ground(api, 1) as place:
        await place.create(place.pod("before", 2))
        await place.until_placed("before")
        await place.client.create(
            COSCHEDULED, coscheduled("train", 2, api.namespace), api.namespace
        )
        for name in ("w0", "w1", "w2"):
            await place.create(labelled(place.pod(name, 4), "train"))

        async def told() -> bool:
            return await place.reason("w0") == "Unschedulable"

        await eventually(told, within=20)
        pods = await place.pods()
        assert not any(pods[name]["spec"].get("nodeName") for name in ("w0", "w1", "w2"))
        await place.client.delete(PODS, "before", api.namespace, grace=0)

        async def two_placed() -> bool:
            pods = await place.pods()
            return sum(bool(pod["spec"].get("nodeName")) for pod in pods.values()) == 2

        await eventually(two_placed, within=20)
        group = await place.client.get(COSCHEDULED, "train", api.namespace)
        assert "status" not in group


async def test_a_pod_waits_for_a_group_that_is_not_there(api: Api) -> None:
    async with scheduled_ground(api, 1) as place:
        await place.create(labelled(place.pod("early", 1), "late"))

        async def told() -> bool:
            return await place.reason("early") == "NoPodGroup"

        await eventually(told, within=20)
        await place.client.create(COSCHEDULED, coscheduled("late", 1, api.namespace), api.namespace)
        await place.until_placed("early")
