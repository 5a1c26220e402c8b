"""What KGWE's requirements promise and its scheduler ignores: memory, model, architecture of the
chosen devices, bandwidth, nodes, priority and preemption. On an embedded cluster."""

from typing import Any

import pytest

from kilonova.local.simnodes.fleet.model import GpuSpec
from tests.gpu.controllers.workload_cluster import condition_of, gpu_cluster, gpu_nodes
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time

GPUS = "spec.gpuRequirements"
A100 = GpuSpec("NVIDIA-A100-SXM4-40GB", 8, "40Gi")
L4 = GpuSpec("NVIDIA-L4", 8, "22Gi")

ONLY_NODE: dict[str, tuple[dict[str, Any], str]] = {
    "memory": ({f"{GPUS}.minMemoryGB": 60}, "hopper-0"),
    "model": ({f"{GPUS}.gpuModel": "A100"}, "ampere-0"),
    "architecture": ({f"{GPUS}.architecture": "Ada"}, "ada-0"),
    "bandwidth": ({f"{GPUS}.minBandwidthGBps": 700}, "hopper-0"),
    "bandwidth of the topology": ({f"{GPUS}.topology": {"minBandwidthGBps": 700}}, "hopper-0"),
    "node selector": ({"spec.constraints": {"nodeSelector": {"pool": "old"}}}, "ampere-0"),
    "node affinity": (
        {
            "spec.constraints": {
                "nodeAffinity": {
                    "requiredDuringScheduling": [
                        {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["old"]}]}
                    ]
                }
            }
        },
        "ampere-0",
    ),
    "excluded nodes": (
        {"spec.constraints": {"excludeNodes": ["hopper-0", "ada-0"]}},
        "ampere-0",
    ),
}

NOWHERE: dict[str, dict[str, Any]] = {
    "memory": {f"{GPUS}.minMemoryGB": 100},
    "model": {f"{GPUS}.gpuModel": "H200"},
    "architecture": {f"{GPUS}.architecture": "Blackwell"},
    "bandwidth": {f"{GPUS}.minBandwidthGBps": 1000},
    # L4s have no NVLink.
    "required NVLink": {
        f"{GPUS}.gpuModel": "L4",
        f"{GPUS}.topology": {"preference": "NVLinkRequired"},
    },
}


def nodes() -> tuple[Any, ...]:
    return (
        gpu_nodes(1, name="hopper"),
        gpu_nodes(1, A100, name="ampere", labels={"pool": "old"}),
        gpu_nodes(1, L4, name="ada"),
    )


@pytest.mark.parametrize("requirement", ONLY_NODE)
async def test_requirement_decides_on_the_node(requirement: str) -> None:
    changes, node = ONLY_NODE[requirement]
    async with gpu_cluster(*nodes()) as cluster:
        await cluster.create(gpus=8, changes=changes)
        status = await cluster.wait_for_phase("Running")
        assert status["nodes"] == [node]


@pytest.mark.parametrize("requirement", NOWHERE)
async def test_requirement_that_no_node_meets_is_waited_for(requirement: str) -> None:
    async with gpu_cluster(*nodes()) as cluster:
        await cluster.create(gpus=2, changes=NOWHERE[requirement])
        status = await cluster.wait_for(
            lambda each: condition_of(each, "Scheduled").get("reason") == "InsufficientCapacity"
        )
        assert "allocatedGPUs" not in status or status["allocatedGPUs"] == []


async def test_only_lower_priorities_that_allow_it_are_preempted() -> None:
    async with gpu_cluster(gpu_nodes(3)) as cluster:
        # All of type Training, which is what KGWE preempts, whatever its priority.
        for name, priority, preemptible in (
            ("low", 10, True),
            ("protected", 10, False),
            ("equal", 100, True),
        ):
            changes = {"spec.priority": priority, "spec.preemptible": preemptible}
            await cluster.create(name, changes=changes)
            await cluster.wait_for_phase("Running", name)
        await cluster.create("high", changes={"spec.priority": 100})
        await cluster.wait_for_phase("Running", "high", within=120)
        running = {
            name: (await cluster.get_status(name))["phase"]
            for name in ("low", "protected", "equal")
        }
        assert running == {"low": "Scheduling", "protected": "Running", "equal": "Running"}


async def test_mig_workload_takes_its_slices_not_whole_gpus() -> None:
    async with gpu_cluster(gpu_nodes(1)) as cluster:
        mig = {f"{GPUS}.mig": {"profile": "2g.20gb", "count": 3}}
        await cluster.create("sliced", gpus=1, changes=mig)
        status = await cluster.wait_for_phase("Running", "sliced")
        assert len(status["migInstances"]) == 3
        await cluster.create("whole", gpus=7)
        await cluster.wait_for_phase("Running", "whole")
