"""Storage in an embedded cluster, in virtual time: claimed, provisioned, used, reclaimed."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from tests.local.embedded_cluster import (
    EVENTS,
    PODS,
    advance_time,
    find,
    pod,
    run_cluster,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)

pytestmark = virtual_time

CLAIMS = unstructured_resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
VOLUMES = unstructured_resource("", "v1", "persistentvolumes", "PersistentVolume", False)
CLASSES = unstructured_resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
SETS = unstructured_resource("apps", "v1", "statefulsets", "StatefulSet", True)

SPEC: Any = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    group = NodeGroup("n", 2, cpu=4, memory="8Gi", stop="1s")
    async with run_cluster(fleet=Fleet(nodes=(group,))) as cluster:
        client = cluster.client("test")

        async def has_class() -> bool:
            return await find(client, CLASSES, "local") is not None

        await wait_for_condition(has_class)
        yield client


def mounting(name: str, claim: str) -> Any:
    return pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim}}])


async def bound(client: Client, name: str) -> Any:
    """The volume of a claim, once it is bound."""

    async def has_volume() -> bool:
        found = await find(client, CLAIMS, name)
        return found is not None and found["status"]["phase"] == "Bound"

    await wait_for_condition(has_volume)
    claim = await find(client, CLAIMS, name)
    return await find(client, VOLUMES, claim["spec"]["volumeName"])


async def phase(client: Client, name: str) -> str:
    found = await find(client, VOLUMES, name)
    return found["status"]["phase"] if found else ""


async def runs(client: Client, name: str) -> Any:
    async def is_running() -> bool:
        found = await find(client, PODS, name)
        return found is not None and found["status"].get("phase") == "Running"

    await wait_for_condition(is_running)
    return await find(client, PODS, name)


async def test_claim_gets_a_volume_on_the_node_of_its_first_pod(client: Client) -> None:
    made = await client.create(CLAIMS, {"metadata": {"name": "data"}, "spec": SPEC}, "default")
    assert made["spec"]["storageClassName"] == "local"
    await advance_time()
    assert (await find(client, CLAIMS, "data"))["status"]["phase"] == "Pending"
    await client.create(PODS, mounting("a", "data"), "default")
    volume = await bound(client, "data")
    placed = await runs(client, "a")
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == [placed["spec"]["nodeName"]]
    assert volume["metadata"]["name"] == f"pvc-{made['metadata']['uid']}"
    assert volume["spec"]["hostPath"]["path"].endswith(f"/{volume['metadata']['name']}")
    reported = {each["reason"] for each in (await client.list(EVENTS, "default")).items}
    assert {"WaitForFirstConsumer", "ProvisioningSucceeded"} <= reported

    async def is_bound() -> bool:
        return await phase(client, volume["metadata"]["name"]) == "Bound"

    await wait_for_condition(is_bound)


async def test_second_pod_is_scheduled_to_the_node_of_the_volume(client: Client) -> None:
    await client.create(CLAIMS, {"metadata": {"name": "data"}, "spec": SPEC}, "default")
    await client.create(PODS, mounting("a", "data"), "default")
    first = (await runs(client, "a"))["spec"]["nodeName"]
    for name in ("b", "c", "d"):
        await client.create(PODS, mounting(name, "data"), "default")
        assert (await runs(client, name))["spec"]["nodeName"] == first


async def test_claim_in_use_is_protected_and_its_volume_is_reclaimed(client: Client) -> None:
    await client.create(CLAIMS, {"metadata": {"name": "data"}, "spec": SPEC}, "default")
    await client.create(PODS, mounting("a", "data"), "default")
    volume = (await bound(client, "data"))["metadata"]["name"]
    await runs(client, "a")
    await client.delete(CLAIMS, "data", "default")
    await advance_time()
    assert (await find(client, CLAIMS, "data"))["metadata"]["deletionTimestamp"]
    await client.delete(PODS, "a", "default")
    await wait_deleted(client, CLAIMS, "data")
    await wait_deleted(client, VOLUMES, volume)


def static(name: str, **spec: Any) -> Any:
    made = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "manual",
        "hostPath": {"path": f"/srv/{name}"},
        **spec,
    }
    return {"metadata": {"name": name}, "spec": made}


async def test_existing_volume_is_bound_released_and_retained(client: Client) -> None:
    await client.create(VOLUMES, static("v"))

    async def available() -> bool:
        return await phase(client, "v") == "Available"

    await wait_for_condition(available)
    spec = {**SPEC, "storageClassName": "manual"}
    await client.create(CLAIMS, {"metadata": {"name": "data"}, "spec": spec}, "default")
    volume = await bound(client, "data")
    assert volume["spec"]["claimRef"]["name"] == "data"
    claim = await find(client, CLAIMS, "data")
    assert claim["status"]["capacity"] == {"storage": "5Gi"}
    await client.delete(CLAIMS, "data", "default")

    async def released() -> bool:
        return await phase(client, "v") == "Released"

    await wait_for_condition(released)
    await advance_time()
    assert await find(client, VOLUMES, "v")
    await client.delete(VOLUMES, "v")
    await wait_deleted(client, VOLUMES, "v")


async def test_pod_reports_a_missing_claim(client: Client) -> None:
    await client.create(PODS, mounting("a", "data"), "default")
    await advance_time()
    conditions = (await find(client, PODS, "a"))["status"]["conditions"]
    assert conditions[0]["message"] == 'persistentvolumeclaim "data" not found'
    await client.create(CLAIMS, {"metadata": {"name": "data"}, "spec": SPEC}, "default")
    await runs(client, "a")


async def test_a_stateful_set_with_claims_runs(client: Client) -> None:
    labels = {"app": "db"}
    body = {
        "metadata": {"name": "db"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "serviceName": "db",
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "i"}]},
            },
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": SPEC}],
        },
    }
    await client.create(SETS, body, "default")
    for index in range(3):
        await runs(client, f"db-{index}")
        assert await bound(client, f"data-db-{index}")


async def test_ephemeral_volume_is_created_and_deleted_with_its_pod(client: Client) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    await client.create(PODS, pod("a", volumes=volumes), "default")
    volume = (await bound(client, "a-scratch"))["metadata"]["name"]
    owner = (await find(client, CLAIMS, "a-scratch"))["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["blockOwnerDeletion"]) == ("Pod", "a", True)
    await runs(client, "a")
    await client.delete(PODS, "a", "default")
    await wait_deleted(client, CLAIMS, "a-scratch")
    await wait_deleted(client, VOLUMES, volume)


async def test_conflicting_claim_of_an_ephemeral_volume_is_reported(client: Client) -> None:
    await client.create(CLAIMS, {"metadata": {"name": "a-scratch"}, "spec": SPEC}, "default")
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": SPEC}}}]
    await client.create(PODS, pod("a", volumes=volumes), "default")
    await advance_time()
    reported = [
        each["message"]
        for each in (await client.list(EVENTS, "default")).items
        if each["reason"] == "FailedBinding"
    ]
    assert reported == [
        "ephemeral volume scratch: PVC default/a-scratch was not created for pod default/a "
        "(pod is not owner)"
    ]
    assert "nodeName" not in (await find(client, PODS, "a"))["spec"]


async def test_idle_claims_cause_no_writes() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        await client.create(VOLUMES, static("v"))
        spec = {**SPEC, "storageClassName": "manual"}
        await client.create(CLAIMS, {"metadata": {"name": "data"}, "spec": spec}, "default")
        await client.create(CLAIMS, {"metadata": {"name": "waiting"}, "spec": SPEC}, "default")
        await bound(client, "data")
        await advance_time(30)
        before = cluster.store.revision
        await advance_time(600)
        assert cluster.store.revision == before
