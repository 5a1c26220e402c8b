"""GPUWorkloads on both API servers, in real time: controllers, our scheduler, simulated nodes with
their agents."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from kilonova.catalog import load_catalog
from kilonova.cli.install import install_definitions
from kilonova.gpu.agent.context import AgentContext
from kilonova.gpu.agent.simulated.runner import build_simulated_agents
from kilonova.gpu.controllers import build_gpu_controllers
from kilonova.kube import Client, Reflector, Runnable
from kilonova.kube.events import EventRecorder
from kilonova.local.simnodes import Fleet, SimulatedNodes
from kilonova.local.simnodes.fleet.model import GpuSpec, NodeGroup
from kilonova.local.simnodes.simulation import PODS as SIM_PODS
from kilonova.scheduler.assembly import build_scheduler
from kilonova.scheduler.settings import SchedulerSettings
from tests.conftest import Api
from tests.gpu.controllers.kgwe_manifests import BUDGET, INFERENCE, README, STRATEGY, TRAINING
from tests.gpu.controllers.manifests import workload
from tests.gpu.controllers.workload_cluster import (
    GANGS,
    NODES,
    PODS,
    STRATEGIES,
    WORKLOADS,
    condition_of,
)
from tests.harness.kubectl import Kubectl
from tests.local.embedded_cluster import find, wait_for_condition
from tests.workloads.workload_cluster import run_runnables

POOL = "kilonova.dev/test-pool"


@asynccontextmanager
async def gpu_servers(
    api: Api, *, others: dict[str, str] | None = None, agents: Path | None = None
) -> AsyncGenerator[Client]:
    """Two nodes of 8 GPUs in a pool of their own, with scheduler and controllers; another node, if
    there are labels for it, and agents, if there is a folder for them."""
    pool = api.namespace
    groups = [gpu_nodes(f"{pool}-gpu", 2, {POOL: pool})]
    if others is not None:
        groups.append(gpu_nodes(f"{pool}-other", 1, others))
    async with (
        api.client() as client,
        api.client("kilonova-scheduler") as of_scheduler,
        api.client("kilonova-operator") as of_operator,
    ):
        await install_definitions(client)
        pods = Reflector(client, SIM_PODS)
        fleet = Fleet(nodes=tuple(groups), heartbeat="5s")
        nodes = SimulatedNodes(client, fleet, lambda: datetime.now(UTC), pods)
        parts = [asyncio.create_task(part.run()) for part in (pods, nodes)]
        try:
            await nodes.wait_registered()
            scheduler = build_scheduler(of_scheduler, SchedulerSettings())
            controllers = build_gpu_controllers(of_operator)
            of_agents = [] if agents is None else list_agent_runnables(client, agents)
            async with (
                run_runnables(scheduler.runnables, scheduler.leader_runnables),
                run_runnables(controllers.runnables, controllers.leader_runnables),
                run_runnables(of_agents, ()),
            ):
                yield client
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            for group in groups:
                for index in range(group.count):
                    await client.delete(NODES, f"{group.name}-{index}")


def gpu_nodes(name: str, count: int, labels: dict[str, str]) -> NodeGroup:
    """Nodes with 8 GPUs each."""
    return NodeGroup(
        name,
        count,
        gpu=GpuSpec("NVIDIA-H100-80GB-HBM3", 8, "80Gi"),
        labels=labels,
        start="10ms",
        stop="10ms",
    )


def list_agent_runnables(client: Client, folder: Path) -> list[Runnable]:
    """The agents of the simulated nodes."""
    context = AgentContext(
        client=client,
        events=EventRecorder(client, "kilonova-gpu-agent"),
        now=lambda: datetime.now(UTC),
        enqueue=lambda name: None,
        catalog=load_catalog(),
    )
    return list(build_simulated_agents(context, lambda: folder, time.monotonic).runnables)


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


async def test_kgwe_manifests_run_unchanged(api: Api, kubectl: Kubectl, tmp_path: Path) -> None:
    manifests = (TRAINING, INFERENCE, STRATEGY, BUDGET)
    selector = STRATEGY["spec"]["nodeSelector"]
    async with gpu_servers(api, others=selector, agents=tmp_path) as client:
        namespace = api.namespace
        for each in manifests:
            await _apply(kubectl, each, namespace)

        status = await _wait_until_running(client, namespace, "llm-fsdp-training")
        assert len(status["allocatedGPUs"]) == 8
        assert status["estimatedBandwidth"] >= 600
        status = await _wait_until_running(client, namespace, "llm-inference")
        (instance,) = status["migInstances"]
        assert instance["profile"] == "2g.20gb"
        assert instance["instanceUUID"].startswith("MIG-")
        strategy = await client.get(STRATEGIES, STRATEGY["metadata"]["name"])
        assert strategy["status"]["appliedNodes"] == [f"{namespace}-other-0"]

        await client.delete(STRATEGIES, STRATEGY["metadata"]["name"])
        await client.delete(WORKLOADS, "llm-fsdp-training", namespace)
        await client.delete(WORKLOADS, "llm-inference", namespace)


async def test_kgwe_manifest_of_the_readme_runs_unchanged(api: Api, kubectl: Kubectl) -> None:
    async with gpu_servers(api) as client:
        await _apply(kubectl, README, api.namespace)
        status = await _wait_until_running(client, api.namespace, "llm-training")
        assert len(status["allocatedGPUs"]) == 8
        await client.delete(WORKLOADS, "llm-training", api.namespace)


async def _apply(kubectl: Kubectl, manifest: Any, namespace: str) -> None:
    text = msgspec.json.encode(manifest).decode()
    done = await asyncio.to_thread(kubectl, "apply -f -", stdin=text, namespace=namespace)
    assert done.code == 0, done.err


async def _wait_until_running(client: Client, namespace: str, name: str) -> Any:
    return await wait_for_status(
        client, namespace, lambda each: each.get("phase") == "Running", name
    )
