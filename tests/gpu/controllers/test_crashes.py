"""Controllers that crash between any two writes, and others that continue."""

import asyncio
from typing import Any

import pytest

from kilonova.gpu.controllers import build_gpu_controllers
from kilonova.kube import Client
from tests.gpu.controllers.workload_cluster import (
    GANGS,
    NAMESPACE,
    PODS,
    SERVICES,
    WORKLOADS,
    GpuCluster,
    gpu_cluster,
    running_controllers,
)
from tests.harness.campaigns import select_cases
from tests.local.embedded_cluster import LoopClock, advance_time, virtual_time
from tests.workloads.crashing_operator import BuiltControllers, crashing_controllers

pytestmark = virtual_time

WRITES_OF_A_START = 9
"""Of a workload with two pods and a priority: class, Service, gang, pods, gates, statuses."""


def build(client: Client, clock: LoopClock) -> BuiltControllers:
    return build_gpu_controllers(client, now=clock.now, monotonic=clock.monotonic)


async def crash_once(cluster: GpuCluster, writes: int, *, last_write_arrives: bool) -> bool:
    """Run controllers until they crash; whether they did."""
    async with crashing_controllers(
        cluster.cluster, "gpu", build, writes, last_write_arrives=last_write_arrives
    ) as crashed:
        try:
            async with asyncio.timeout(30):
                await crashed.wait()
        except TimeoutError:
            return False
    return True


async def list_created(cluster: GpuCluster) -> dict[str, list[str]]:
    return {each.plural: await cluster.list_names(each) for each in (PODS, GANGS)}


@pytest.mark.campaign
@pytest.mark.parametrize("arrives", [True, False], ids=["applied", "lost"])
@pytest.mark.parametrize("writes", select_cases(list(range(1, WRITES_OF_A_START + 1)), 3))
async def test_start_goes_on_after_a_crash(writes: int, arrives: bool) -> None:
    async with gpu_cluster(controllers=False) as cluster:
        await cluster.create(gpus=16, changes={"spec.priority": 5})
        assert await crash_once(cluster, writes, last_write_arrives=arrives)
        async with running_controllers(cluster.cluster):
            status = await cluster.wait_for_phase("Running", within=120)
        assert status.get("incarnation", 0) == 0
        assert len(status["allocatedGPUs"]) == 16
        assert await list_created(cluster) == {"pods": ["job-0", "job-1"], "podgangs": ["gw-job"]}


@pytest.mark.campaign
@pytest.mark.parametrize("arrives", [True, False], ids=["applied", "lost"])
@pytest.mark.parametrize("writes", select_cases(list(range(1, 9)), 3))
async def test_replacement_goes_on_after_a_crash(writes: int, arrives: bool) -> None:
    async with gpu_cluster(controllers=False) as cluster:
        async with running_controllers(cluster.cluster):
            await cluster.create(gpus=16)
            await cluster.wait_for_phase("Running")
        await cluster.client.evict("job-0", NAMESPACE)
        await crash_once(cluster, writes, last_write_arrives=arrives)
        async with running_controllers(cluster.cluster):
            await cluster.wait_for(
                lambda each: each.get("incarnation") == 1 and each["phase"] == "Running",
                within=120,
            )
            await advance_time(30)
        assert await list_created(cluster) == {
            "pods": ["job-0-r1", "job-1-r1"],
            "podgangs": ["gw-job"],
        }


async def test_workload_that_was_deleted_while_nobody_looked_leaves_nothing() -> None:
    async with gpu_cluster(controllers=False) as cluster:
        await cluster.create(gpus=16)
        await crash_once(cluster, 4, last_write_arrives=True)
        await cluster.client.delete(WORKLOADS, "job", NAMESPACE)
        async with running_controllers(cluster.cluster):
            await advance_time(60)
        assert await list_created(cluster) == {"pods": [], "podgangs": []}
        services: list[Any] = await cluster.list_names(SERVICES)
        assert services == ["kubernetes"]
