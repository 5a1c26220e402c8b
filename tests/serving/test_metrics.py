"""Metrics of services, in virtual time."""

from prometheus_client import CollectorRegistry

from kilonova.api.serving import InferenceService
from kilonova.kube import Reflector
from kilonova.serving.metrics import ServiceMetrics
from kilonova.serving.resources import INFERENCE_SERVICES
from tests.local.embedded_cluster import virtual_time, wait_for_condition
from tests.serving.serving_cluster import INFERENCE_SERVICES as SERVICES
from tests.serving.serving_cluster import NAMESPACE, server_group, serving_cluster
from tests.workloads.workload_cluster import run_runnables

pytestmark = virtual_time


async def test_services_are_counted_by_phase() -> None:
    registry = CollectorRegistry()

    def count(phase: str) -> float | None:
        labels = {"namespace": NAMESPACE, "phase": phase}
        return registry.get_sample_value("kilonova_serving_services", labels)

    async with serving_cluster() as cluster:
        services: Reflector[InferenceService] = Reflector(cluster.client, INFERENCE_SERVICES)
        async with run_runnables([services], [ServiceMetrics(services, registry)]):
            await cluster.create("web")
            await cluster.create("idle", server_group(replicas=0))
            await cluster.wait_for_phase("Ready")
            await cluster.wait_for_phase("Idle", "idle")

            async def are_counted() -> bool:
                return (count("Ready"), count("Idle"), count("Pending")) == (1, 1, None)

            await wait_for_condition(are_counted)
            await cluster.client.delete(SERVICES, "idle", NAMESPACE)

            async def is_gone() -> bool:
                return count("Idle") is None

            await wait_for_condition(is_gone)
