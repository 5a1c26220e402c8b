"""Instances on both API servers, in real time: controllers, our scheduler, simulated nodes."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from kilonova.api.grove import names as grove_names
from kilonova.api.inference_engine import names
from kilonova.cli.install import install_definitions
from kilonova.instances.assembly import build_instance_controllers
from kilonova.kube import Client, NotFound, Reflector
from kilonova.local.simnodes import Fleet, SimulatedNodes
from kilonova.local.simnodes.fleet.model import GpuSpec, NodeGroup, Taint
from kilonova.local.simnodes.simulation import PODS as SIM_PODS
from kilonova.scheduler.assembly import build_scheduler
from kilonova.scheduler.settings import SchedulerSettings
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.instances.instance_cluster import GANGS, INSTANCES, NODES, PODS, instance
from tests.local.embedded_cluster import wait_for_condition
from tests.workloads.workload_cluster import run_runnables

POOL = "kilonova.dev/test-pool"
NODE_COUNT = 3


@asynccontextmanager
async def instance_servers(api: Api, count: int = NODE_COUNT) -> AsyncGenerator[Client]:
    """Nodes of 8 accelerators in a pool of their own, with scheduler and controllers."""
    pool = api.namespace
    group = NodeGroup(
        f"{pool}-node",
        count,
        gpu=GpuSpec("NVIDIA-H100-80GB-HBM3", 8, "80Gi"),
        labels={POOL: pool},
        # The scheduler also places what other tests have left behind.
        taints=(Taint(POOL, effect="NoSchedule"),),
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
            controllers = build_instance_controllers(client)
            async with (
                run_runnables(scheduler.runnables, scheduler.leader_runnables),
                run_runnables(controllers.runnables, controllers.leader_runnables),
            ):
                yield client
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            for index in range(count):
                await client.delete(NODES, f"{group.name}-{index}")
            await _delete_pods_and_gangs(client)


async def _delete_pods_and_gangs(client: Client) -> None:
    """Those of all instances on the server: no scheduler of another test is to place them."""
    ours = f"{grove_names.MANAGED_BY}={names.MANAGER}"
    for resource in (GANGS, PODS):
        for each in (await client.list(resource, label_selector=ours)).items:
            known = each["metadata"]
            with suppress(NotFound):
                await client.delete(
                    resource, known["name"], known["namespace"], grace_period_seconds=0
                )


def build_template(pool: str) -> dict[str, Any]:
    """A pod template for the nodes of a pool."""
    return {
        "spec": {
            "containers": [{"name": "engine", "resources": {"requests": {"cpu": "1"}}}],
            "nodeSelector": {POOL: pool},
            "tolerations": [{"key": POOL, "operator": "Exists"}],
        }
    }


async def wait_for_status(client: Client, namespace: str, condition: Callable[[Any], bool]) -> Any:
    status: Any = {}

    async def holds() -> bool:
        nonlocal status
        status = (await client.get(INSTANCES, "llama", namespace)).get("status", {})
        return condition(status)

    try:
        await wait_for_condition(holds, within=60)
    except AssertionError:
        raise AssertionError(f"status: {status}") from None
    return status


def is_repaired(recreated: int) -> Callable[[Any], bool]:
    return lambda status: (
        status.get("phase") == "Ready"
        and status.get("repairs", {}).get("recreated", 0) == recreated
    )


async def test_instance_runs_and_is_repaired(api: Api, kubectl: Kubectl) -> None:
    namespace = api.namespace
    template = build_template(namespace)
    async with instance_servers(api) as client:
        body = instance(agent=template, conductor=template)
        await client.create(INSTANCES, body, namespace)
        status = await wait_for_status(client, namespace, is_repaired(0))
        used = {each["node"] for each in status["allocation"]}
        assert len(used) == 2
        printed = await asyncio.to_thread(kubectl, ["get", "iei", "-n", namespace])
        header, line = printed.out.splitlines()
        assert header.split() == [
            "NAME",
            "MODEL",
            "TARGETAGENTS",
            "READYAGENTS",
            "PENDINGAGENTS",
        ]
        assert line.split() == ["llama", "llama32-90b", "4", "4", "0"]

        await client.evict("llama-agent-1", namespace)
        await wait_for_status(client, namespace, is_repaired(1))

        node = sorted(used)[0]
        await client.patch(NODES, node, {"spec": {"unschedulable": True}})
        status = await wait_for_status(
            client,
            namespace,
            lambda each: (
                each["phase"] == "Ready"
                and node not in {agent["node"] for agent in each["allocation"]}
            ),
        )
        assert status["repairs"]["lastReason"] == f"node {node} is cordoned"
