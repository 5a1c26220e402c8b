"""ClusterTopologyBindings and the Topologies of schedulers."""

from typing import Any

from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.simnodes import NO_NODES
from tests.local.embedded_cluster import (
    DEFINITIONS,
    advance_time,
    definition,
    virtual_time,
    wait_for_condition,
)
from tests.workloads.running_operator import running_operator
from tests.workloads.workload_cluster import TOPOLOGY_BINDINGS, WorkloadCluster, workload_cluster

pytestmark = virtual_time

KAI = unstructured_resource("kai.scheduler", "v1alpha1", "topologies", "Topology", False)


def build_binding(*schedulers: str) -> Any:
    refers = [{"schedulerName": each, "topologyReference": "theirs"} for each in schedulers]
    levels = [{"domain": "zone", "key": "z"}, {"domain": "rack", "key": "r"}]
    return {
        "metadata": {"name": "plant"},
        "spec": {"levels": levels, "schedulerTopologyBindings": refers},
    }


def build_kai_topology(*labels: str) -> Any:
    return {
        "metadata": {"name": "theirs"},
        "spec": {"levels": [{"nodeLabel": each} for each in labels]},
    }


async def get_drift_condition(cluster: WorkloadCluster) -> str:
    """Status and reason of the condition."""
    found = (await cluster.client.get(TOPOLOGY_BINDINGS, "plant")).get("status", {})
    own = [each for each in found.get("conditions", ()) if each["type"] == "SchedulerTopologyDrift"]
    return f"{own[0]['status']} {own[0]['reason']}" if own else ""


async def wait_for_drift(cluster: WorkloadCluster, wanted: str) -> None:
    async def condition() -> bool:
        return await get_drift_condition(cluster) == wanted

    await wait_for_condition(condition, within=120)


async def test_binding_that_refers_to_nothing_has_no_drift() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster, running_operator(cluster.cluster):
        await cluster.client.create(TOPOLOGY_BINDINGS, build_binding())
        await advance_time()
        status = (await cluster.client.get(TOPOLOGY_BINDINGS, "plant"))["status"]
        assert status["observedGeneration"] == 1
        assert await get_drift_condition(cluster) == ""


async def test_drift_is_reported_as_it_appears_and_disappears() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster, running_operator(cluster.cluster):
        await cluster.client.create(TOPOLOGY_BINDINGS, build_binding("kai-scheduler"))
        await wait_for_drift(cluster, "True Drift")
        served = definition("kai.scheduler", "Topology", "topologies", scope="Cluster")
        served["spec"]["versions"][0]["name"] = "v1alpha1"
        await cluster.client.create(DEFINITIONS, served)
        await advance_time()
        await cluster.client.create(KAI, build_kai_topology("z"))

        async def levels_differ() -> bool:
            status = (await cluster.client.get(TOPOLOGY_BINDINGS, "plant"))["status"]
            [one] = status["schedulerTopologyStatuses"]
            assert one["inSync"] is False
            return one["message"] == "topology 'theirs' has levels z instead of z, r"

        await wait_for_condition(levels_differ, within=120)
        assert await get_drift_condition(cluster) == "True Drift"
        await cluster.client.patch(KAI, "theirs", {"spec": build_kai_topology("z", "r")["spec"]})
        await wait_for_drift(cluster, "False InSync")
        await cluster.client.delete(KAI, "theirs")
        await wait_for_drift(cluster, "True Drift")


async def test_scheduler_without_topologies_is_reported() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster, running_operator(cluster.cluster):
        await cluster.client.create(TOPOLOGY_BINDINGS, build_binding("volcano"))
        await wait_for_drift(cluster, "Unknown TopologyNotFound")
        [one] = (await cluster.client.get(TOPOLOGY_BINDINGS, "plant"))["status"][
            "schedulerTopologyStatuses"
        ]
        assert "only kai-scheduler has" in one["message"]
