"""The metrics of KGWE's exporter, with its labels and buckets: those of GPUs from the agent, those
of decisions from the scheduler, those of workloads from the operator."""

import asyncio

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kilonova.gpu.controllers.caches import build_caches
from kilonova.gpu.controllers.metrics import WorkloadMetrics
from kilonova.gpu.exporter import ExporterReading
from kilonova.gpu.exporter.collector import render
from kilonova.scheduler.metrics import SchedulerMetrics
from tests.gpu.controllers.workload_cluster import gpu_cluster
from tests.gpu.devices.machines import first_uuid, simulate
from tests.gpu.exporter.readings import load, read, user
from tests.local.embedded_cluster import virtual_time, wait_for_condition

pytestmark = virtual_time

GPU = {"gpu_uuid", "node"}
LABELS: dict[str, set[str]] = {
    "kgwe_scheduling_latency_ms": set(),
    "kgwe_scheduling_attempts": set(),
    "kgwe_scheduling_successes": set(),
    "kgwe_scheduling_failures": set(),
    "kgwe_topology_optimal_placements": set(),
    "kgwe_preemptions": set(),
    "kgwe_gpu_count": set(),
    "kgwe_gpu_utilization_percent": {*GPU, "model"},
    "kgwe_gpu_memory_used_bytes": GPU,
    "kgwe_gpu_memory_total_bytes": GPU,
    "kgwe_gpu_temperature_celsius": GPU,
    "kgwe_gpu_power_watts": GPU,
    "kgwe_gpu_health_status": GPU,
    "kgwe_mig_instance_count": {*GPU, "profile"},
    "kgwe_mig_instance_utilization_percent": {"instance_uuid", "gpu_uuid", "profile"},
    "kgwe_mig_allocations": set(),
    "kgwe_mig_releases": set(),
    "kgwe_nvlink_bandwidth_gbps": {"gpu_uuid_1", "gpu_uuid_2", "node"},
    "kgwe_pcie_bandwidth_gbps": GPU,
    "kgwe_topology_score": {"node"},
    "kgwe_active_workloads": {"namespace", "workload_type"},
    "kgwe_workload_duration_seconds": set(),
    "kgwe_workload_queue_depth": set(),
}
"""The labels that KGWE declares, by family; there may be more."""

BUCKETS = {
    "kgwe_scheduling_latency_ms": (10, 25, 50, 100, 250, 500, 1000, 2500, 5000),
    "kgwe_workload_duration_seconds": (60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400),
}


async def test_every_metric_has_the_labels_of_kgwe() -> None:
    families = expose_agent() | await expose_control_plane()
    assert {name for name in families if name.startswith("kgwe_")} == set(LABELS)
    for name, labels in LABELS.items():
        assert families[name].samples, name
        for sample in families[name].samples:
            assert labels <= set(sample.labels), name


async def test_buckets_are_those_of_kgwe() -> None:
    families = await expose_control_plane()
    for name, bounds in BUCKETS.items():
        samples = families[name].samples
        found = [x.labels["le"] for x in samples if x.name.endswith("_bucket")]
        assert [float(each) for each in found] == [*bounds, float("inf")]


def expose_agent() -> dict[str, Metric]:
    """The metrics of a machine with two linked GPUs, and one with a busy MIG instance."""
    backend = simulate("h100:3")
    uuid = first_uuid(backend)
    backend.set_mig_mode(uuid, True)
    instance = backend.create_instance(uuid, "1g.10gb", 0)
    backend.set_load(instance.uuid, load(7, 1.0, 2))
    body, _ = render(ExporterReading((read(backend, user("a", "0:1g.10gb@0")),)))
    return parse(body)


async def expose_control_plane() -> dict[str, Metric]:
    """The metrics of a scheduler, and of an operator with a workload."""
    registry = CollectorRegistry()
    SchedulerMetrics(registry)
    async with gpu_cluster() as cluster:
        caches = build_caches(cluster.client)
        metrics = WorkloadMetrics(caches, registry)
        running = [asyncio.create_task(each.run()) for each in (caches.workloads, metrics)]
        await cluster.create()
        await cluster.wait_for_phase("Running")

        async def is_counted() -> bool:
            return b"kgwe_active_workloads{" in generate_latest(registry)

        await wait_for_condition(is_counted)
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    return parse(generate_latest(registry))


def parse(body: bytes) -> dict[str, Metric]:
    families = text_string_to_metric_families(body.decode())
    return {each.name: each for each in families if not each.name.endswith("_created")}
