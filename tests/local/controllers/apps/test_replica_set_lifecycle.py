"""ReplicaSets and ReplicationControllers of an embedded cluster, in virtual time."""

from collections.abc import AsyncIterator

import pytest

from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from tests.local.controllers.apps.manifests import (
    CONTROLLERS,
    REPLICA_SETS,
    cluster,
    conditions,
    pods_of,
    reasons,
    template,
    wait_for_status,
    workload,
)
from tests.local.embedded_cluster import (
    PODS,
    advance_time,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)

pytestmark = virtual_time


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with cluster() as found:
        yield found


async def test_a_pod_that_is_deleted_is_replaced(client: Client) -> None:
    await client.create(REPLICA_SETS, workload(replicas=3), "default")
    await wait_for_status(client, REPLICA_SETS, replicas=3, availableReplicas=3)
    (first, *_) = await pods_of(client)
    name = first["metadata"]["name"]
    assert name.startswith("web-")
    await client.delete(PODS, name, "default")
    await wait_deleted(client, PODS, name)
    await wait_for_status(client, REPLICA_SETS, replicas=3, availableReplicas=3)
    assert await reasons(client, "ReplicaSet", "web") == ["SuccessfulCreate"] * 4


async def test_never_more_pods_than_desired_are_created(client: Client) -> None:
    await client.create(REPLICA_SETS, workload(replicas=60), "default")
    await wait_for_status(client, REPLICA_SETS, replicas=60, availableReplicas=60)
    await advance_time()
    assert len((await client.list(PODS, "default")).items) == 60
    await client.set_scale(REPLICA_SETS, "web", "default", 5)
    await wait_for_status(client, REPLICA_SETS, replicas=5, terminatingReplicas=0)
    assert len((await client.list(PODS, "default")).items) == 5


async def test_unready_pods_are_deleted_first(client: Client) -> None:
    await client.create(REPLICA_SETS, workload(replicas=2), "default")
    await wait_for_status(client, REPLICA_SETS, replicas=2, availableReplicas=2)
    survivors = {pod["metadata"]["name"] for pod in await pods_of(client)}
    patch = {"spec": {"replicas": 4, "template": {"spec": {"nodeSelector": {"no": "such"}}}}}
    await client.patch(REPLICA_SETS, "web", patch, "default")
    await wait_for_status(client, REPLICA_SETS, replicas=4, availableReplicas=2)
    await client.set_scale(REPLICA_SETS, "web", "default", 2)
    await wait_for_status(client, REPLICA_SETS, replicas=2, terminatingReplicas=0)
    assert {pod["metadata"]["name"] for pod in await pods_of(client)} == survivors


async def test_a_rejection_is_reported_and_retried(client: Client) -> None:
    made = workload(replicas=1, pod={"priorityClassName": "later"})
    await client.create(REPLICA_SETS, made, "default")

    async def reported() -> bool:
        found = await client.get(REPLICA_SETS, "web", "default")
        return conditions(found) == {"ReplicaFailure": ("True", "FailedCreate")}

    await wait_for_condition(reported)
    assert "FailedCreate" in await reasons(client, "ReplicaSet", "web")
    classes = unstructured_resource(
        "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False
    )
    await client.create(classes, {"metadata": {"name": "later"}, "value": 5})
    done = await wait_for_status(client, REPLICA_SETS, within=600, availableReplicas=1)
    assert conditions(done) == {}


async def test_a_replication_controller_keeps_its_pods(client: Client) -> None:
    made = workload(replicas=2)
    made["spec"]["selector"] = {"app": "web"}
    await client.create(CONTROLLERS, made, "default")
    done = await wait_for_status(client, CONTROLLERS, replicas=2, availableReplicas=2)
    assert "terminatingReplicas" not in done["status"]
    (owner,) = (await pods_of(client))[0]["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"]) == ("v1", "ReplicationController")


async def test_a_pod_is_adopted_only_by_one(client: Client) -> None:
    orphan = {"metadata": {"name": "orphan", "labels": {"app": "web"}}}
    await client.create(PODS, orphan | {"spec": template()["spec"]}, "default")
    await client.create(REPLICA_SETS, workload("web", replicas=1), "default")
    await wait_for_status(client, REPLICA_SETS, replicas=1)
    twin = workload("twin", replicas=1)
    twin["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    await client.create(REPLICA_SETS, twin, "default")
    await wait_for_status(client, REPLICA_SETS, "twin", replicas=1, availableReplicas=1)
    (owner,) = (await client.get(PODS, "orphan", "default"))["metadata"]["ownerReferences"]
    assert owner["name"] == "web"
