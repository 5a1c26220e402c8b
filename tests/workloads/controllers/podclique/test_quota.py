"""Pods that a quota rejects."""

from typing import Any

from kilonova.kube.client.resource import unstructured_resource
from tests.local.embedded_cluster import advance_time, virtual_time
from tests.workloads.api_objects import clique, pod_clique_set
from tests.workloads.running_operator import running_operator
from tests.workloads.workload_cluster import CLIQUES, NAMESPACE, PODS, workload_cluster

QUOTAS = unstructured_resource("", "v1", "resourcequotas", "ResourceQuota", True)

pytestmark = virtual_time


async def test_pods_rejected_by_a_quota_are_created_after_its_removal() -> None:
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.client.create(QUOTAS, quota, NAMESPACE)
        await advance_time(5)
        await cluster.apply(pod_clique_set(clique("a", 3)))
        await advance_time(1000)
        assert len(await cluster.list_objects(PODS)) == 1
        (error,) = (await cluster.get(CLIQUES, "sys-0-a"))["status"]["lastErrors"]
        assert "exceeded quota" in error["description"]
        await cluster.client.delete(QUOTAS, "few", NAMESPACE)

        def is_well(status: Any) -> bool:
            return status.get("availableReplicas") == 1

        await cluster.wait_for_status(is_well, timeout=30)
