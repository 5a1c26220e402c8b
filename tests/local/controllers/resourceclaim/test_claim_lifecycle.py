"""Claims of pods in an embedded cluster, in virtual time: generated, allocated, released."""

from collections.abc import AsyncIterator
from pathlib import Path
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

CLAIMS = unstructured_resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True)
TEMPLATES = unstructured_resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True
)
CLASSES = unstructured_resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)
PROTECTION = "resource.kubernetes.io/delete-protection"

SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
TEMPLATE = {"metadata": {"name": "one-gpu"}, "spec": {"spec": SPEC}}
WANTED = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    group = NodeGroup("n", 2, cpu=4, memory="8Gi", stop="1s")
    async with run_cluster(fleet=Fleet(nodes=(group,))) as cluster:
        client = cluster.client("test")
        await client.create(CLASSES, {"metadata": {"name": "gpu"}, "spec": {}})
        yield client


async def generated(client: Client, name: str = "a") -> str:
    """The name of the claim that was generated for a pod."""

    async def named() -> bool:
        found = await find(client, PODS, name)
        return bool(found["status"].get("resourceClaimStatuses"))

    await wait_for_condition(named)
    found = await find(client, PODS, name)
    return found["status"]["resourceClaimStatuses"][0]["resourceClaimName"]


async def message(client: Client, name: str = "a") -> str:
    found = await find(client, PODS, name)
    conditions = found["status"].get("conditions", [])
    scheduled = [each for each in conditions if each["type"] == "PodScheduled"]
    return scheduled[0].get("message", "") if scheduled else ""


async def allocate(client: Client, claim: str, *pods: str, node: str = "n-1") -> None:
    """What a scheduler does: add the finalizer, allocate a device, reserve the claim for pods."""
    await client.patch(CLAIMS, claim, {"metadata": {"finalizers": [PROTECTION]}}, "default")
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    result = {"request": "gpu", "driver": "d", "pool": node, "device": "gpu-0"}
    users = [
        {
            "resource": "pods",
            "name": name,
            "uid": (await find(client, PODS, name))["metadata"]["uid"],
        }
        for name in pods
    ]
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }
    status = {"status": {"allocation": allocation, "reservedFor": users}}
    await client.patch(CLAIMS, claim, status, "default", subresource="status")


async def running_pod(client: Client, name: str = "a") -> Any:
    async def runs() -> bool:
        return (await find(client, PODS, name))["status"].get("phase") == "Running"

    await wait_for_condition(runs)
    return await find(client, PODS, name)


async def test_claim_is_generated_from_its_template(client: Client) -> None:
    await client.create(TEMPLATES, TEMPLATE, "default")
    made = await client.create(PODS, pod("a", resourceClaims=[WANTED]), "default")
    name = await generated(client)
    claim = await find(client, CLAIMS, name)
    assert name.startswith("a-gpu-")
    assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert claim["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    await advance_time()
    assert [each["metadata"]["name"] for each in (await client.list(CLAIMS, "default")).items] == [
        name
    ]


async def test_pod_waits_for_its_template_with_an_event(client: Client) -> None:
    await client.create(PODS, pod("a", resourceClaims=[WANTED]), "default")
    await advance_time()
    reported = [
        each["message"]
        for each in (await client.list(EVENTS, "default")).items
        if each["reason"] == "FailedResourceClaimCreation"
    ]
    assert reported == [
        'PodResourceClaim gpu: resource claim template "one-gpu": '
        'resourceclaimtemplate.resource.k8s.io "one-gpu" not found'
    ]
    await client.create(TEMPLATES, TEMPLATE, "default")
    assert await generated(client)


async def test_pod_is_bound_only_where_its_devices_are(client: Client) -> None:
    await client.create(TEMPLATES, TEMPLATE, "default")
    await client.create(PODS, pod("a", resourceClaims=[WANTED]), "default")
    claim = await generated(client)

    async def says_so() -> bool:
        return "devices" in await message(client)

    await wait_for_condition(says_so)
    await allocate(client, claim, "a")
    assert (await running_pod(client))["spec"]["nodeName"] == "n-1"


async def test_deleted_claim_is_generated_again(client: Client) -> None:
    await client.create(TEMPLATES, TEMPLATE, "default")
    await client.create(PODS, pod("a", resourceClaims=[WANTED]), "default")
    first = await generated(client)
    await client.delete(CLAIMS, first, "default")

    async def again() -> bool:
        return await generated(client) != first

    await wait_for_condition(again)
    assert await find(client, CLAIMS, await generated(client))


async def test_shared_claim_is_deallocated_after_its_last_pod(client: Client) -> None:
    shared = {"name": "gpu", "resourceClaimName": "ours"}
    await client.create(CLAIMS, {"metadata": {"name": "ours"}, "spec": SPEC}, "default")
    for name in ("a", "b"):
        await client.create(PODS, pod(name, resourceClaims=[shared]), "default")
    await allocate(client, "ours", "a", "b")
    await running_pod(client, "a")
    await running_pod(client, "b")
    await client.delete(PODS, "a", "default")
    await wait_deleted(client, PODS, "a")

    async def users() -> list[str]:
        status = (await find(client, CLAIMS, "ours")).get("status", {})
        return [each["name"] for each in status.get("reservedFor", [])]

    async def only_b() -> bool:
        return await users() == ["b"]

    await wait_for_condition(only_b)
    assert (await find(client, CLAIMS, "ours"))["status"]["allocation"]
    await client.delete(PODS, "b", "default")

    async def free() -> bool:
        claim = await find(client, CLAIMS, "ours")
        return not claim["status"] and not claim["metadata"].get("finalizers")

    await wait_for_condition(free)


async def test_generated_claim_is_deleted_when_its_pod_has_ended(client: Client) -> None:
    await client.create(TEMPLATES, TEMPLATE, "default")
    await client.create(PODS, pod("a", resourceClaims=[WANTED]), "default")
    claim = await generated(client)
    await allocate(client, claim, "a")
    await running_pod(client)
    await client.patch(
        PODS, "a", {"status": {"phase": "Succeeded"}}, "default", subresource="status"
    )
    await wait_deleted(client, CLAIMS, claim)
    await advance_time()
    assert (await client.list(CLAIMS, "default")).items == []


async def test_deletion_of_a_claim_waits_for_its_consumers(client: Client) -> None:
    shared = {"name": "gpu", "resourceClaimName": "ours"}
    await client.create(CLAIMS, {"metadata": {"name": "ours"}, "spec": SPEC}, "default")
    await client.create(PODS, pod("a", resourceClaims=[shared]), "default")
    await allocate(client, "ours", "a")
    await running_pod(client)
    await client.delete(CLAIMS, "ours", "default")
    await advance_time()
    assert (await find(client, CLAIMS, "ours"))["metadata"]["deletionTimestamp"]
    await client.delete(PODS, "a", "default")
    await wait_deleted(client, CLAIMS, "ours")


async def test_claim_created_before_a_crash_is_found_again(tmp_path: Path) -> None:
    without = "*,-resourceclaim-controller"
    async with run_cluster(data=tmp_path, controllers=without) as cluster:
        client = cluster.client("test")
        await client.create(TEMPLATES, TEMPLATE, "default")
        made = await client.create(PODS, pod("a", resourceClaims=[WANTED]), "default")
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "a",
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        metadata = {
            "name": "a-gpu-before",
            "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
            "ownerReferences": [owner],
        }
        await client.create(CLAIMS, {"metadata": metadata, "spec": SPEC}, "default")
    async with run_cluster(data=tmp_path) as cluster:
        client = cluster.client("test")
        assert await generated(client) == "a-gpu-before"
        await advance_time()
        assert len((await client.list(CLAIMS, "default")).items) == 1
