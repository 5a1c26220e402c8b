"""KGWE's example manifests on a whole embedded cluster: scheduler, agents, controllers, webhooks.

Their fields and values are those of KGWE's examples, README and product document; claims and
commands are shortened.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kilonova.api.gpu.mig_strategy import MIG_STRATEGY
from kilonova.cli.up.components.assembly import assemble_cluster
from kilonova.local.cluster import ClusterSettings
from kilonova.local.simnodes.fleet.model import Fleet
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

TRAINING: Any = {
    "apiVersion": "kgwe.nvidia.io/v1",
    "kind": "GPUWorkload",
    "metadata": {"name": "llm-fsdp-training", "labels": {"team": "foundation-models"}},
    "spec": {
        "gpuRequirements": {
            "count": 8,
            "minMemoryGB": 80,
            "gpuModel": "H100",
            "topology": {"preference": "NVLinkOptimal", "minBandwidthGBps": 600},
        },
        "workloadType": "Training",
        "framework": "PyTorch",
        "distributedConfig": {"strategy": "FSDP", "worldSize": 8, "backend": "NCCL"},
        "priority": 100,
        "preemptible": False,
        "podTemplate": {
            "spec": {
                "containers": [
                    {
                        "name": "trainer",
                        "image": "nvcr.io/nvidia/pytorch:24.01-py3",
                        "command": [
                            "torchrun",
                            "--nproc_per_node=8",
                            "--master_addr=$(MASTER_ADDR)",
                            "--master_port=29500",
                            "train.py",
                        ],
                        "env": [
                            {"name": "NCCL_DEBUG", "value": "INFO"},
                            {"name": "NCCL_IB_DISABLE", "value": "0"},
                        ],
                        "resources": {
                            "limits": {"nvidia.com/gpu": 8, "memory": "512Gi", "cpu": 64},
                            "requests": {"nvidia.com/gpu": 8, "memory": "256Gi", "cpu": 32},
                        },
                        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                    }
                ],
                "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}],
                "restartPolicy": "OnFailure",
            }
        },
    },
}
INFERENCE: Any = {
    "apiVersion": "kgwe.nvidia.io/v1",
    "kind": "GPUWorkload",
    "metadata": {"name": "llm-inference", "labels": {"team": "inference-platform"}},
    "spec": {
        "gpuRequirements": {"count": 1, "mig": {"profile": "2g.20gb", "count": 1}},
        "workloadType": "Inference",
        "framework": "Triton",
        "priority": 50,
        "preemptible": True,
        "podTemplate": {
            "spec": {
                "containers": [
                    {
                        "name": "inference",
                        "image": "nvcr.io/nvidia/tritonserver:24.01-py3",
                        "args": ["tritonserver", "--http-port=8000"],
                        "ports": [{"containerPort": 8000, "name": "http"}],
                        "resources": {
                            "limits": {"nvidia.com/mig-2g.20gb": 1, "memory": "32Gi", "cpu": 8}
                        },
                    }
                ]
            }
        },
    },
}
STRATEGY: Any = {
    "apiVersion": "kgwe.nvidia.io/v1",
    "kind": "MIGStrategy",
    "metadata": {"name": "inference-optimized"},
    "spec": {
        "nodeSelector": {"gpu.nvidia.com/class": "H100", "node-pool": "inference"},
        "gpuSelector": {"model": "H100", "migCapable": True},
        "profileDistribution": {"1g.10gb": 0.70, "2g.20gb": 0.20, "3g.40gb": 0.10},
        "allowDynamicReconfig": True,
        "rebalanceInterval": "5m",
        "minUtilizationThreshold": 0.3,
        "priority": 10,
    },
}
README: Any = {
    "apiVersion": "kgwe.nvidia.io/v1",
    "kind": "GPUWorkload",
    "metadata": {"name": "llm-training"},
    "spec": {
        "gpuRequirements": {
            "count": 8,
            "minMemoryGB": 40,
            "topology": {"preference": "NVLinkOptimal", "minBandwidthGBps": 600},
        },
        "workloadType": "Training",
        "framework": "PyTorch",
        "distributedConfig": {"strategy": "FSDP", "worldSize": 8, "backend": "NCCL"},
        "podTemplate": {
            "spec": {
                "containers": [
                    {
                        "name": "training",
                        "image": "nvcr.io/nvidia/pytorch:24.01-py3",
                        "command": ["torchrun", "--nproc_per_node=8", "train.py"],
                    }
                ]
            }
        },
    },
}
PRODUCT_DOCUMENT: Any = {
    "apiVersion": "kgwe.nvidia.io/v1",
    "kind": "GPUWorkload",
    "metadata": {"name": "llm-training-job"},
    "spec": {
        "gpuRequirements": {
            "count": 8,
            "minMemoryGB": 40,
            "topology": {"preference": "NVLinkOptimal", "minBandwidthGBps": 600},
        },
        "workloadType": "DistributedTraining",
        "framework": "PyTorch",
    },
}


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
