"""Conflicting objects: existing ones without labels, and missing ones."""

from typing import Any

import pytest

from kilonova.api.grove.podcliqueset import ResourceSharing
from kilonova.kube.client.resource import unstructured_resource
from tests.local.embedded_cluster import advance_time, virtual_time, wait_for_condition
from tests.workloads.api_objects import clique, group, pod_clique_set, pod_template
from tests.workloads.running_operator import running_operator
from tests.workloads.workload_cluster import (
    CLIQUES,
    GANGS,
    NAMESPACE,
    RESOURCE_CLAIMS,
    SCALING_GROUPS,
    SERVICES,
    WorkloadCluster,
    workload_cluster,
)

CLAIM_TEMPLATES = unstructured_resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True
)

pytestmark = virtual_time


async def wait_until_available(cluster: WorkloadCluster) -> None:
    await cluster.wait_for_status(lambda status: status.get("availableReplicas") == 1)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (SERVICES, "sys-0"),
        (GANGS, "sys-0"),
        (SCALING_GROUPS, "sys-0-x"),
        (CLIQUES, "sys-0-a"),
        (CLIQUES, "sys-0-x-0-b"),
    ],
    ids=lambda each: each if isinstance(each, str) else each.plural,
)
async def test_removed_labels_of_an_object_are_restored(kind: Any, name: str) -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(pod_clique_set(clique("a"), clique("b"), groups=[group("x", "b")]))
        await wait_until_available(cluster)
        await advance_time()
        before = (await cluster.get(kind, name))["metadata"]
        await cluster.client.patch(kind, name, {"metadata": {"labels": None}}, NAMESPACE)

        async def is_back() -> bool:
            found = await cluster.get(kind, name)
            return found is not None and found["metadata"].get("labels") == before["labels"]

        await wait_for_condition(is_back, within=15)
        assert (await cluster.get(kind, name))["metadata"]["uid"] == before["uid"]
        await wait_until_available(cluster)
        await cluster.wait_for_status(lambda status: not status.get("lastErrors"))


async def test_late_claim_template_is_found_soon() -> None:
    set_ = pod_clique_set(clique("a", resource_sharing=(ResourceSharing("theirs", "PerReplica"),)))
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(set_)
        await advance_time(1000)
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
        body = {
            "metadata": {"name": "theirs"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
        await cluster.client.create(CLAIM_TEMPLATES, body, NAMESPACE)

        async def is_made() -> bool:
            return await cluster.list_names(RESOURCE_CLAIMS) == ["sys-0-a-0-theirs"]

        await wait_for_condition(is_made, within=12)


async def test_clique_is_created_soon_after_a_conflicting_one_is_deleted() -> None:
    foreign = {
        "metadata": {"name": "sys-0-a"},
        "spec": {"roleName": "theirs", "replicas": 1, "podSpec": pod_template()},
    }
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.client.create(CLIQUES, foreign, NAMESPACE)
        await cluster.apply(pod_clique_set(clique("a")))
        await advance_time(1000)
        assert (await cluster.get(CLIQUES, "sys-0-a"))["spec"]["roleName"] == "theirs"
        await cluster.client.delete(CLIQUES, "sys-0-a", NAMESPACE)
        await cluster.wait_for_status(
            lambda status: status.get("availableReplicas") == 1, timeout=20
        )
