"""GPUWorkloads on both API servers, in real time: controllers, our scheduler, simulated nodes."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from kilonova.cli.install import install_definitions
from kilonova.gpu.controllers import build_gpu_controllers
from kilonova.kube import Client, Reflector
from kilonova.local.simnodes import Fleet, SimulatedNodes
from kilonova.local.simnodes.fleet.model import GpuSpec, NodeGroup
from kilonova.local.simnodes.simulation import PODS as SIM_PODS
from kilonova.scheduler.assembly import build_scheduler
from kilonova.scheduler.settings import SchedulerSettings
from tests.conftest import Api
from tests.gpu.controllers.manifests import workload
from tests.gpu.controllers.workload_cluster import (
    GANGS,
    NODES,
    PODS,
    STRATEGIES,
    WORKLOADS,
    condition_of,
)
from tests.local.embedded_cluster import find, wait_for_condition
from tests.workloads.workload_cluster import run_runnables

POOL = "kilonova.dev/test-pool"


@asynccontextmanager
async def gpu_servers(api: Api) -> AsyncGenerator[Client]:
    """Two nodes of 8 GPUs in a pool of their own, with scheduler and controllers."""
    pool = api.namespace
    group = NodeGroup(
        f"{pool}-gpu",
        2,
        gpu=GpuSpec("NVIDIA-H100-80GB-HBM3", 8, "80Gi"),
        labels={POOL: pool},
        start="10ms",
        stop="10ms",
    )
    async with api.client() as client:
        await install_definitions(client)
        pods = Reflector(client, SIM_PODS)
        fleet = Fleet(nodes=(group,), heartbeat="5s")
        nodes = SimulatedNodes(client, fleet, lambda: datetime.now(UTC), pods)
        parts = [asyncio.create_task(part.run()) for part in (pods, nodes)]
        try:
            await nodes.wait_registered()
            scheduler = build_scheduler(client, SchedulerSettings())
            controllers = build_gpu_controllers(client)
            async with (
                run_runnables(scheduler.runnables, scheduler.leader_runnables),
                run_runnables(controllers.runnables, controllers.leader_runnables),
            ):
                yield client
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            for index in range(2):
                await client.delete(NODES, f"{group.name}-{index}")


async def wait_for_status(
    client: Client, namespace: str, condition: Callable[[Any], bool], name: str = "job"
) -> Any:
    status: Any = {}

    async def holds() -> bool:
        nonlocal status
        status = (await client.get(WORKLOADS, name, namespace)).get("status", {})
        return condition(status)

    try:
        await wait_for_condition(holds, within=40)
    except AssertionError:
        raise AssertionError(f"status: {status}") from None
    return status


async def test_workload_runs_is_repaired_and_deleted(api: Api) -> None:
    async with gpu_servers(api) as client:
        namespace = api.namespace
        changes = {
            "metadata.namespace": namespace,
            "spec.constraints": {"nodeSelector": {POOL: namespace}},
            "spec.gpuRequirements.topology": {"preference": "NVLinkOptimal"},
            "spec.priority": 100,
        }
        body = workload(gpus=16, changes=changes)
        await client.create(WORKLOADS, body, namespace)
        status = await wait_for_status(
            client, namespace, lambda each: each.get("phase") == "Running"
        )
        assert status["nodes"] == [f"{namespace}-gpu-0", f"{namespace}-gpu-1"]
        assert len(set(status["allocatedGPUs"])) == 16
        assert status["scoreParts"]["topology"] == 100
        assert condition_of(status, "Scheduled")["status"] == "True"

        await client.evict("job-1", namespace)
        await wait_for_status(
            client,
            namespace,
            lambda each: each.get("incarnation") == 1 and each["phase"] == "Running",
        )
        gang = await client.get(GANGS, "gw-job", namespace)
        assert gang["status"]["phase"] in ("Starting", "Running")

        await client.delete(WORKLOADS, "job", namespace)

        async def nothing_is_left() -> bool:
            pods = await client.list(PODS, namespace)
            return not pods.items and await find(client, GANGS, "gw-job", namespace) is None

        # Kubernetes' garbage collector looks for new kinds of owners every 30 s.
        await wait_for_condition(nothing_is_left, within=120)


async def test_strategy_is_assigned_to_nodes(api: Api) -> None:
    async with gpu_servers(api) as client:
        spec = {"nodeSelector": {POOL: api.namespace}, "profileDistribution": {"1g.10gb": 0.5}}
        name = f"of-{api.namespace}"
        await client.create(STRATEGIES, {"metadata": {"name": name}, "spec": spec})

        async def assigned() -> bool:
            status = (await client.get(STRATEGIES, name)).get("status", {})
            return condition_of(status, "Ready").get("status") == "True"

        await wait_for_condition(assigned, within=20)
        status = (await client.get(STRATEGIES, name))["status"]
        expected = [f"{api.namespace}-gpu-{index}" for index in range(2)]
        assert status["appliedNodes"] == expected
        await client.delete(STRATEGIES, name)
