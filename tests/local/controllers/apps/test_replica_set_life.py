"""ReplicaSets and ReplicationControllers of an embedded cluster, in virtual time."""

from collections.abc import AsyncIterator

import pytest

from kilonova.kube import Client
from kilonova.kube.resource import plain
from tests.local.controllers.apps.workloads import (
    CONTROLLERS,
    REPLICA_SETS,
    cluster,
    conditions,
    pods_of,
    reasons,
    template,
    until_status,
    workload,
)
from tests.local.embedded_cluster import PODS, eventually, gone, settle

pytestmark = pytest.mark.looptime


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with cluster() as found:
        yield found


async def test_a_pod_that_is_deleted_is_replaced(client: Client) -> None:
    await client.create(REPLICA_SETS, workload(replicas=3), "default")
    await until_status(client, REPLICA_SETS, replicas=3, availableReplicas=3)
    (first, *_) = await pods_of(client)
    name = first["metadata"]["name"]
    assert name.startswith("web-")
    await client.delete(PODS, name, "default")
    await gone(client, PODS, name)
    await until_status(client, REPLICA_SETS, replicas=3, availableReplicas=3)
    assert await reasons(client, "ReplicaSet", "web") == ["SuccessfulCreate"] * 4


async def test_never_more_pods_than_wanted_are_made(client: Client) -> None:
    await client.create(REPLICA_SETS, workload(replicas=60), "default")
    await until_status(client, REPLICA_SETS, replicas=60, availableReplicas=60)
    await settle()
    assert len((await client.list(PODS, "default")).items) == 60
    await client.set_scale(REPLICA_SETS, "web", "default", 5)
    await until_status(client, REPLICA_SETS, replicas=5, terminatingReplicas=0)
    assert len((await client.list(PODS, "default")).items) == 5


async def test_unready_pods_go_first(client: Client) -> None:
    await client.create(REPLICA_SETS, workload(replicas=2), "default")
    await until_status(client, REPLICA_SETS, replicas=2, availableReplicas=2)
    survivors = {pod["metadata"]["name"] for pod in await pods_of(client)}
    patch = {"spec": {"replicas": 4, "template": {"spec": {"nodeSelector": {"no": "such"}}}}}
    await client.patch(REPLICA_SETS, "web", patch, "default")
    await until_status(client, REPLICA_SETS, replicas=4, availableReplicas=2)
    await client.set_scale(REPLICA_SETS, "web", "default", 2)
    await until_status(client, REPLICA_SETS, replicas=2, terminatingReplicas=0)
    assert {pod["metadata"]["name"] for pod in await pods_of(client)} == survivors


async def test_a_refusal_is_told_and_tried_again(client: Client) -> None:
    made = workload(replicas=1, pod={"priorityClassName": "later"})
    await client.create(REPLICA_SETS, made, "default")

    async def told() -> bool:
        found = await client.get(REPLICA_SETS, "web", "default")
        return conditions(found) == {"ReplicaFailure": ("True", "FailedCreate")}

    await eventually(told)
    assert "FailedCreate" in await reasons(client, "ReplicaSet", "web")
    classes = plain("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
    await client.create(classes, {"metadata": {"name": "later"}, "value": 5})
    done = await until_status(client, REPLICA_SETS, within=600, availableReplicas=1)
    assert conditions(done) == {}


async def test_a_replication_controller_keeps_its_pods(client: Client) -> None:
    made = workload(replicas=2)
    made["spec"]["selector"] = {"app": "web"}
    await client.create(CONTROLLERS, made, "default")
    done = await until_status(client, CONTROLLERS, replicas=2, availableReplicas=2)
    assert "terminatingReplicas" not in done["status"]
    (owner,) = (await pods_of(client))[0]["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"]) == ("v1", "ReplicationController")


async def test_a_pod_is_adopted_only_by_one(client: Client) -> None:
    orphan = {"metadata": {"name": "orphan", "labels": {"app": "web"}}}
    await client.create(PODS, orphan | {"spec": template()["spec"]}, "default")
    await client.create(REPLICA_SETS, workload("web", replicas=1), "default")
    await until_status(client, REPLICA_SETS, replicas=1)
    twin = workload("twin", replicas=1)
    twin["spec"]["selector"] = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    await client.create(REPLICA_SETS, twin, "default")
    await until_status(client, REPLICA_SETS, "twin", replicas=1, availableReplicas=1)
    (owner,) = (await client.get(PODS, "orphan", "default"))["metadata"]["ownerReferences"]
    assert owner["name"] == "web"
