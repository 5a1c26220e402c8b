"""Reservations on both servers: what is written is accepted, and the next scheduler keeps it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.cli.install import install_definitions
from kilonova.kube import Client
from kilonova.kube.resource import plain
from kilonova.scheduler.scheduler import build_scheduler
from kilonova.scheduler.settings import Settings
from tests.conftest import Api
from tests.local.embedded_cluster import PODS, eventually
from tests.scheduler.process.scheduler_ground import ground
from tests.scheduler.scheduling import is_served
from tests.workloads.ground import parts_running

RESERVATIONS = plain("scheduling.kilonova.dev", "v1alpha1", "reservations", "Reservation", True)


@asynccontextmanager
async def a_scheduler(client: Client) -> AsyncGenerator[None]:
    scheduler = build_scheduler(client, Settings(pace=0.2))
    async with parts_running(scheduler.parts, scheduler.leading):
        yield


async def test_reserved_room_outlives_its_scheduler(api: Api) -> None:
    async with ground(api, 1) as place:
        client = place.client
        await install_definitions(client)
        await eventually(lambda: is_served(client, RESERVATIONS), within=20)

        async def status() -> Any:
            found = await client.get(RESERVATIONS, "night", api.namespace)
            return found.get("status", {})

        async def is_in(phase: str) -> bool:
            return (await status()).get("phase") == phase

        pods = [{"count": 2, "requests": {"nvidia.com/gpu": 4, "cpu": "500m"}}]
        body = {"metadata": {"name": "night"}, "spec": {"pods": pods, "duration": "1h"}}
        async with a_scheduler(client):
            await client.create(RESERVATIONS, body, api.namespace)
            await eventually(lambda: is_in("Reserved"), within=20)
        before = await status()
        (node,) = before["nodes"]
        assert (node["pods"], node["requests"]) == (2, {"nvidia.com/gpu": "4", "cpu": "500m"})
        assert node["devices"] == "0,1,2,3,4,5,6,7"
        await place.create(place.pod("other", 1))
        mine = place.pod("mine", 4)
        mine["metadata"]["annotations"] = {"scheduling.kilonova.dev/reservation": "night"}
        async with a_scheduler(client):
            await place.create(mine)
            await place.until_placed("mine")
            await eventually(lambda: is_in("Used"), within=20)
            used = await status()
            assert used["usedBy"] == {"namespace": api.namespace, "name": "mine"}
            assert used["nodes"] == before["nodes"]
            assert "nodeName" not in (await place.pods())["other"]["spec"]
            await client.delete(PODS, "mine", api.namespace, grace=0)
            await eventually(lambda: is_in("Reserved"), within=20)
            await client.delete(RESERVATIONS, "night", api.namespace)
            await place.until_placed("other")
