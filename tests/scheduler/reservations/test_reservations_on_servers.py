"""Reservations on both API servers: the status is accepted, and the next scheduler keeps it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.cli.install import install_definitions
from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.scheduler.assembly import build_scheduler
from kilonova.scheduler.settings import SchedulerSettings
from tests.conftest import Api
from tests.local.embedded_cluster import PODS, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import is_served
from tests.scheduler.process.scheduler_process_cluster import scheduler_test_cluster
from tests.workloads.workload_cluster import run_runnables

RESERVATIONS = unstructured_resource(
    "scheduling.kilonova.dev", "v1alpha1", "reservations", "Reservation", True
)


@asynccontextmanager
async def running_scheduler(client: Client) -> AsyncGenerator[None]:
    scheduler = build_scheduler(client, SchedulerSettings(status_interval=0.2))
    async with run_runnables(scheduler.runnables, scheduler.leader_runnables):
        yield


async def test_reserved_capacity_survives_a_scheduler_restart(api: Api) -> None:
    async with scheduler_test_cluster(api, 1) as place:
        client = place.client
        await install_definitions(client)
        await wait_for_condition(lambda: is_served(client, RESERVATIONS))

        async def status() -> Any:
            found = await client.get(RESERVATIONS, "night", api.namespace)
            return found.get("status", {})

        async def is_in(phase: str) -> bool:
            return (await status()).get("phase") == phase

        requests = {"nvidia.com/gpu": 4, "cpu": "500m"}
        pods = [{"count": 2, "requests": requests, **place.node_constraints}]
        body = {"metadata": {"name": "night"}, "spec": {"pods": pods, "duration": "1h"}}
        async with running_scheduler(client):
            await client.create(RESERVATIONS, body, api.namespace)
            await wait_for_condition(lambda: is_in("Reserved"))
        before = await status()
        (node,) = before["nodes"]
        assert (node["pods"], node["requests"]) == (2, {"nvidia.com/gpu": "4", "cpu": "500m"})
        assert node["devices"] == "0,1,2,3,4,5,6,7"
        await place.create(place.pod("other", 1))
        mine = place.pod("mine", 4)
        mine["metadata"]["annotations"] = {"scheduling.kilonova.dev/reservation": "night"}
        async with running_scheduler(client):
            await place.create(mine)
            await place.until_placed("mine")
            await wait_for_condition(lambda: is_in("Used"))
            used = await status()
            assert used["usedBy"] == {"namespace": api.namespace, "name": "mine"}
            assert used["nodes"] == before["nodes"]
            assert "nodeName" not in (await place.pods())["other"]["spec"]
            await client.delete(PODS, "mine", api.namespace, grace_period_seconds=0)
            await wait_for_condition(lambda: is_in("Reserved"))
            await client.delete(RESERVATIONS, "night", api.namespace)
            await place.until_placed("other")
