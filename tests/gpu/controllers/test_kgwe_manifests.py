"""KGWE's example manifests on a whole embedded cluster of `kilonova up`, with webhooks."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kilonova.api.gpu.mig_strategy import MIG_STRATEGY
from kilonova.cli.up.components.assembly import assemble_cluster
from kilonova.local.cluster import ClusterSettings
from kilonova.local.simnodes.fleet.model import Fleet
from tests.gpu.controllers.kgwe_manifests import (
    INFERENCE,
    PRODUCT_DOCUMENT,
    README,
    STRATEGY,
    TRAINING,
)
from tests.gpu.controllers.workload_cluster import (
    NAMESPACE,
    NODES,
    PODS,
    STRATEGIES,
    WORKLOADS,
    GpuCluster,
    condition_of,
    gpu_nodes,
)
from tests.local.embedded_cluster import LoopClock, virtual_time, wait_for_condition

pytestmark = virtual_time


@asynccontextmanager
async def whole_cluster(tmp_path: Path) -> AsyncGenerator[GpuCluster]:
    """Everything of `kilonova up` that these manifests need."""
    labels = {"gpu.nvidia.com/class": "H100", "node-pool": "inference"}
    fleet = Fleet((gpu_nodes(1), gpu_nodes(1, name="inference", labels=labels)))
    settings = ClusterSettings(port=None, data=tmp_path / "data", fleet=fleet)
    cluster = assemble_cluster(("scheduler", "gpu"), settings, LoopClock()).cluster
    await cluster.start()
    try:
        await cluster.wait_nodes_registered()
        yield GpuCluster(cluster, cluster.client("system:admin"))
    finally:
        await cluster.stop()


def environment_of(pod: Any) -> dict[str, str]:
    (container,) = pod["spec"]["containers"]
    return {each["name"]: each.get("value", "") for each in container["env"]}


async def test_training_example_runs_on_eight_connected_gpus(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as cluster:
        await cluster.client.create(WORKLOADS, TRAINING, NAMESPACE)
        status = await cluster.wait_for_phase("Running", "llm-fsdp-training")
        assert len(status["allocatedGPUs"]) == 8
        assert status["estimatedBandwidth"] >= 600
        pod = await cluster.get(PODS, "llm-fsdp-training-0")
        (container,) = pod["spec"]["containers"]
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"
        assert container["resources"]["requests"]["memory"] == "256Gi"
        variables = environment_of(pod)
        assert variables["MASTER_ADDR"] == "127.0.0.1"
        assert variables["WORLD_SIZE"] == "8"
        assert variables["PET_NPROC_PER_NODE"] == "8"
        assert variables["NCCL_DEBUG"] == "INFO"
        assert pod["spec"]["priorityClassName"] == "kgwe-priority-100"
        assert pod["spec"]["priority"] == 100
        annotations = pod["metadata"]["annotations"]
        assert annotations["gpu.kilonova.dev/min-memory"] == "76293"
        assert annotations["gpu.kilonova.dev/model"] == "H100"
        assert annotations["gpu.kilonova.dev/topology"] == "NVLinkOptimal"
        assert annotations["gpu.kilonova.dev/min-bandwidth"] == "600"


async def test_inference_example_gets_a_slice_that_the_agent_makes(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as cluster:
        await cluster.client.create(WORKLOADS, INFERENCE, NAMESPACE)
        status = await cluster.wait_for_phase("Running", "llm-inference", within=300)
        (instance,) = status["migInstances"]
        assert instance["instanceUUID"].startswith("MIG-")
        assert instance["profile"] == "2g.20gb"
        assert status["allocatedGPUs"] == [instance["parentGPU"]]
        assert status["scheduledNode"] == instance["node"]
        pod = await cluster.get(PODS, "llm-inference-0")
        assert pod["spec"]["restartPolicy"] == "Always"


async def test_strategy_example_is_assigned_to_its_pool(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as cluster:
        await cluster.client.create(STRATEGIES, STRATEGY)

        async def assigned() -> bool:
            found = await cluster.get(STRATEGIES, "inference-optimized")
            return condition_of(found.get("status", {}), "Ready").get("status") == "True"

        await wait_for_condition(assigned)
        found = await cluster.get(STRATEGIES, "inference-optimized")
        assert found["status"]["appliedNodes"] == ["inference-0"]
        annotations = (await cluster.get(NODES, "node-0"))["metadata"]["annotations"]
        assert MIG_STRATEGY not in annotations


async def test_example_of_the_readme_runs(tmp_path: Path) -> None:
    async with whole_cluster(tmp_path) as cluster:
        await cluster.client.create(WORKLOADS, README, NAMESPACE)
        status = await cluster.wait_for_phase("Running", "llm-training")
        assert len(status["allocatedGPUs"]) == 8


async def test_example_of_the_product_document_is_accepted_and_lacks_a_template(
    tmp_path: Path,
) -> None:
    async with whole_cluster(tmp_path) as cluster:
        await cluster.client.create(WORKLOADS, PRODUCT_DOCUMENT, NAMESPACE)
        status = await cluster.wait_for(
            lambda each: bool(condition_of(each, "Accepted")), "llm-training-job"
        )
        assert condition_of(status, "Accepted")["reason"] == "NoPodTemplate"
        template = {"spec": {"podTemplate": README["spec"]["podTemplate"]}}
        await cluster.client.patch(WORKLOADS, "llm-training-job", template, NAMESPACE)
        await cluster.wait_for_phase("Running", "llm-training-job")
