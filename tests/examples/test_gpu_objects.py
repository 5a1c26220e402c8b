"""The examples of GPUWorkloads and MIGStrategies, on a cluster with scheduler and agents."""

from pathlib import Path
from typing import Any

import yaml

from tests.gpu.controllers.test_kgwe_manifests import whole_cluster
from tests.gpu.controllers.workload_cluster import (
    NAMESPACE,
    STRATEGIES,
    WORKLOADS,
    GpuCluster,
    condition_of,
)
from tests.local.embedded_cluster import virtual_time, wait_for_condition

pytestmark = virtual_time

EXAMPLES = Path(__file__).parents[2] / "examples" / "gpu"


async def apply(cluster: GpuCluster, name: str) -> None:
    for body in yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()):
        is_workload = body["kind"] == "GPUWorkload"
        resource = WORKLOADS if is_workload else STRATEGIES
        await cluster.client.create(resource, body, NAMESPACE if is_workload else None)


async def test_training_runs_in_two_pods(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as cluster:
        await apply(cluster, "training")
        status = await cluster.wait_for_phase("Running", "llm-training")
        assert len(status["nodes"]) == 2
        assert len(set(status["allocatedGPUs"])) == 16
        assert status["estimatedBandwidth"] >= 600


async def test_inference_runs_on_a_slice(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as cluster:
        await apply(cluster, "inference-slice")
        status = await cluster.wait_for_phase("Running", "chat", within=300)
        assert status["migInstances"][0]["instanceUUID"].startswith("MIG-")


async def test_strategy_is_assigned(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as cluster:
        await apply(cluster, "mig-strategy")
        found: Any = {}

        async def assigned() -> bool:
            nonlocal found
            found = (await cluster.get(STRATEGIES, "inference-optimized")).get("status", {})
            return condition_of(found, "Ready").get("status") == "True"

        await wait_for_condition(assigned)
        assert found["appliedNodes"] == ["inference-0", "node-0"]
