"""The PodCliqueSet controller alone, on an embedded cluster."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.api.grove import names
from kilonova.api.grove.podcliqueset import ResourceClaimTemplate, SetResourceSharing
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.events import EventRecorder
from kilonova.local.simnodes import NO_NODES
from kilonova.workloads.caches import build_caches
from kilonova.workloads.context import ControllerContext
from kilonova.workloads.controllers.podcliqueset.controller import build_set_controller
from tests.local.embedded_cluster import (
    LoopClock,
    advance_time,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)
from tests.workloads.api_objects import clique, pod_clique_set, pod_template
from tests.workloads.workload_cluster import (
    CONTROLLER_REVISIONS,
    NAMESPACE,
    RESOURCE_CLAIMS,
    SERVICES,
    SETS,
    WorkloadCluster,
    run_runnables,
    workload_cluster,
)

TEMPLATES = unstructured_resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True
)

pytestmark = virtual_time


@asynccontextmanager
async def running_set_controller(cluster: WorkloadCluster) -> AsyncGenerator[None]:
    """Nobody but the controller of sets at work."""
    client, clock = cluster.cluster.client("operator"), LoopClock()
    caches = build_caches(client)
    recorder = EventRecorder(client, "sets", clock=clock.monotonic, wall=clock.now)
    controller = build_set_controller(
        ControllerContext(client, caches, recorder, now=clock.now, monotonic=clock.monotonic)
    )
    async with run_runnables([*caches.runnables, recorder], [controller]):
        yield


def build_service(name: str, index: int, owner: Any = None) -> Any:
    """What is labelled as an object of a replica; a set's own if that is its owner."""
    labels = {
        names.MANAGED_BY: names.OPERATOR,
        names.PART_OF: "sys",
        names.SET_REPLICA_INDEX: str(index),
    }
    metadata: Any = {"name": name, "labels": labels}
    if owner is not None:
        known = {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        kind = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet"}
        metadata["ownerReferences"] = [{**kind, **known, "controller": True}]
    return {"metadata": metadata, "spec": {"clusterIP": "None"}}


async def test_new_set_gets_its_first_revision_and_no_update() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster, running_set_controller(cluster):
        await cluster.apply(pod_clique_set(replicas=2))
        status = await cluster.wait_for_status(lambda each: bool(each.get("currentGenerationHash")))
        assert "updateProgress" not in status
        assert status["observedGeneration"] == 1
        assert await cluster.list_names(CONTROLLER_REVISIONS) == [
            f"sys-{status['currentGenerationHash']}"
        ]
        found = await cluster.client.get(SETS, "sys", NAMESPACE)
        assert found["metadata"]["finalizers"] == [names.SET_FINALIZER]


async def test_revision_that_is_deleted_is_recreated() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster, running_set_controller(cluster):
        await cluster.apply(pod_clique_set())
        status = await cluster.wait_for_status(lambda each: bool(each.get("currentGenerationHash")))
        name = f"sys-{status['currentGenerationHash']}"
        await cluster.client.delete(CONTROLLER_REVISIONS, name, NAMESPACE)
        await wait_for_condition(lambda: _exists(cluster, CONTROLLER_REVISIONS, name))


async def test_ten_unused_revisions_are_kept() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster, running_set_controller(cluster):
        for each in range(13):
            spec = pod_template(nodeSelector={"try": str(each)})
            await cluster.apply(pod_clique_set(clique("worker", pod_spec=spec)))
            await cluster.wait_for_status(
                lambda status, each=each: status.get("observedGeneration") == each + 1
            )
        await advance_time()
        found = await cluster.list_objects(CONTROLLER_REVISIONS)
        assert sorted(each["revision"] for each in found) == list(range(4, 14))


async def test_late_object_of_a_removed_replica_is_deleted() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster, running_set_controller(cluster):
        await cluster.apply(pod_clique_set(replicas=2))
        await cluster.wait_for_status(lambda each: bool(each.get("currentGenerationHash")))
        set_ = await cluster.get(SETS, "sys")
        await cluster.client.create(SERVICES, build_service("sys-1", 1, set_), NAMESPACE)
        await cluster.client.create(SERVICES, build_service("sys-2", 2, set_), NAMESPACE)
        await wait_deleted(cluster.client, SERVICES, "sys-2")
        assert await cluster.get(SERVICES, "sys-1") is not None


async def test_object_of_another_owner_is_left_alone_whatever_its_labels() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster, running_set_controller(cluster):
        await cluster.apply(pod_clique_set(replicas=1))
        await cluster.wait_for_status(lambda each: bool(each.get("currentGenerationHash")))
        await cluster.client.create(SERVICES, build_service("mine", 7), NAMESPACE)
        set_ = await cluster.get(SETS, "sys")
        await cluster.client.create(SERVICES, build_service("sys-7", 7, set_), NAMESPACE)
        await wait_deleted(cluster.client, SERVICES, "sys-7")
        await cluster.client.delete(SETS, "sys", NAMESPACE)
        await wait_deleted(cluster.client, SETS, "sys")
        assert await cluster.get(SERVICES, "mine") is not None


async def test_shared_claims_are_created_and_survive_scale_to_zero() -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    template = ResourceClaimTemplate("gpus", {"spec": {"devices": {"requests": [request]}}})
    sharing = SetResourceSharing("gpus", "AllReplicas")
    async with workload_cluster(fleet=NO_NODES) as cluster, running_set_controller(cluster):
        await cluster.apply(
            pod_clique_set(
                replicas=0, resource_claim_templates=(template,), resource_sharing=(sharing,)
            )
        )
        await wait_for_condition(lambda: _exists(cluster, RESOURCE_CLAIMS, "sys-all-gpus"))


async def test_error_is_reported_with_its_first_time_until_resolved() -> None:
    sharing = SetResourceSharing("elsewhere", "AllReplicas")
    async with workload_cluster(fleet=NO_NODES) as cluster, running_set_controller(cluster):
        await cluster.apply(pod_clique_set(resource_sharing=(sharing,)))
        status = await cluster.wait_for_status(lambda each: bool(each.get("lastErrors")))
        [error] = status["lastErrors"]
        assert error["code"] == "ERR_SYNC_RESOURCE_CLAIMS"
        assert "elsewhere" in error["description"]
        await advance_time(20)
        assert (await cluster.get_status())["lastErrors"] == [error]
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
        await cluster.client.create(
            TEMPLATES,
            {
                "metadata": {"name": "elsewhere"},
                "spec": {"spec": {"devices": {"requests": [request]}}},
            },
            NAMESPACE,
        )
        await cluster.wait_for_status(lambda each: not each.get("lastErrors"), timeout=600)
        assert await cluster.list_names(RESOURCE_CLAIMS) == ["sys-all-elsewhere"]


async def test_deleted_set_is_gone_at_once() -> None:
    async with workload_cluster(fleet=NO_NODES) as cluster, running_set_controller(cluster):
        await cluster.apply(pod_clique_set())
        await cluster.wait_for_status(lambda each: bool(each.get("currentGenerationHash")))
        await cluster.client.delete(SETS, "sys", NAMESPACE)
        await wait_deleted(cluster.client, SETS, "sys")
        await wait_for_condition(lambda: _is_empty(cluster))


async def _exists(cluster: WorkloadCluster, resource: Any, name: str) -> bool:
    return await cluster.get(resource, name) is not None


async def _is_empty(cluster: WorkloadCluster) -> bool:
    return await cluster.list_remaining_objects() == []
