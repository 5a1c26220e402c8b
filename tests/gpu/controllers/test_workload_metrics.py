"""KGWE's metrics of workloads, as GPUWorkloads run on an embedded cluster."""

import asyncio
from typing import Any

from prometheus_client import CollectorRegistry

from kilonova.gpu.controllers.caches import build_caches
from kilonova.gpu.controllers.metrics import WorkloadMetrics
from tests.gpu.controllers.manifests import run_for
from tests.gpu.controllers.workload_cluster import NAMESPACE, WORKLOADS, gpu_cluster
from tests.local.embedded_cluster import virtual_time, wait_for_condition

pytestmark = virtual_time

NVLINK: Any = {"spec.gpuRequirements.topology": {"preference": "NVLinkOptimal"}}
RUNS_1000_SECONDS: Any = {**NVLINK, **run_for(1000)}


async def test_metrics_follow_workloads_from_the_queue_to_their_end() -> None:
    async with gpu_cluster() as cluster:
        registry = CollectorRegistry()
        caches = build_caches(cluster.client)
        metrics = WorkloadMetrics(caches, registry)

        async def reads(name: str, value: float | None, **labels: str) -> None:
            async def holds() -> bool:
                return registry.get_sample_value(name, labels) == value

            await wait_for_condition(holds, within=2000)

        async with asyncio.TaskGroup() as group:
            running = [group.create_task(each.run()) for each in (caches.workloads, metrics)]
            training = {"namespace": NAMESPACE, "workload_type": "Training"}
            await cluster.create("first", gpus=16, changes=RUNS_1000_SECONDS)
            await reads("kgwe_active_workloads", 1, **training)
            await reads("kgwe_topology_optimal_placements_total", 1)

            # All GPUs are taken.
            inference = {"spec.workloadType": "Inference", **NVLINK}
            await cluster.create("second", changes=inference)
            await reads("kgwe_workload_queue_depth", 1)

            await cluster.wait_for_phase("Succeeded", "first", within=2000)
            await reads("kgwe_active_workloads", None, **training)
            await reads("kgwe_workload_duration_seconds_count", 1)
            await reads("kgwe_workload_duration_seconds_bucket", 0, le="900.0")
            await reads("kgwe_workload_duration_seconds_bucket", 1, le="1800.0")
            await reads("kgwe_workload_queue_depth", 0)
            await reads("kgwe_topology_optimal_placements_total", 2)

            await cluster.client.delete(WORKLOADS, "second", NAMESPACE)
            await reads(
                "kgwe_active_workloads", None, namespace=NAMESPACE, workload_type="Inference"
            )
            for each in running:
                each.cancel()
