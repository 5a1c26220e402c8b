"""Claims of pods in an embedded cluster, in virtual time: made, waited for, used, given back."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.resource import plain
from kilonova.local.nodes.fleet import Fleet, NodeGroup
from tests.local.embedded_cluster import EVENTS, PODS, eventually, find, gone, pod, running, settle

pytestmark = pytest.mark.looptime

CLAIMS = plain("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True)
TEMPLATES = plain("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True)
CLASSES = plain("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)
PROTECTION = "resource.kubernetes.io/delete-protection"

SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
TEMPLATE = {"metadata": {"name": "one-gpu"}, "spec": {"spec": SPEC}}
WANTED = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    group = NodeGroup("n", 2, cpu=4, memory="8Gi", stop="1s")
    async with running(fleet=Fleet(nodes=(group,))) as cluster:
        client = cluster.client("test")
        await client.create(CLASSES, {"metadata": {"name": "gpu"}, "spec": {}})
        yield client


async def generated(client: Client, name: str = "a") -> str:
    """The name of the claim that was made for a pod."""

    async def named() -> bool:
        found = await find(client, PODS, name)
        return bool(found["status"].get("resourceClaimStatuses"))

    await eventually(named)
    found = await find(client, PODS, name)
    return found["status"]["resourceClaimStatuses"][0]["resourceClaimName"]


async def message(client: Client, name: str = "a") -> str:
    found = await find(client, PODS, name)
    conditions = found["status"].get("conditions", [])
    scheduled = [each for each in conditions if each["type"] == "PodScheduled"]
    return scheduled[0].get("message", "") if scheduled else ""


async def allocate(client: Client, claim: str, *pods: str, node: str = "n-1") -> None:
    """What a scheduler does: protect the claim, give it a device, reserve it for pods."""
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

    await eventually(runs)
    return await find(client, PODS, name)


async def test_a_claim_is_made_from_its_template(client: Client) -> None:
    await client.create(TEMPLATES, TEMPLATE, "default")
    made = await client.create(PODS, pod("a", resourceClaims=[WANTED]), "default")
    name = await generated(client)
    claim = await find(client, CLAIMS, name)
    assert name.startswith("a-gpu-")
    assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert claim["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    await settle()
    assert [each["metadata"]["name"] for each in (await client.list(CLAIMS, "default")).items] == [
        name
    ]


async def test_a_pod_waits_for_its_template_and_says_so(client: Client) -> None:
    await client.create(PODS, pod("a", resourceClaims=[WANTED]), "default")
    await settle()
    told = [
        each["message"]
        for each in (await client.list(EVENTS, "default")).items
        if each["reason"] == "FailedResourceClaimCreation"
    ]
    assert told == [
        'PodResourceClaim gpu: resource claim template "one-gpu": '
        'resourceclaimtemplate.resource.k8s.io "one-gpu" not found'
    ]
    await client.create(TEMPLATES, TEMPLATE, "default")
    assert await generated(client)


async def test_a_pod_is_placed_only_where_its_devices_are(client: Client) -> None:
    await client.create(TEMPLATES, TEMPLATE, "default")
    await client.create(PODS, pod("a", resourceClaims=[WANTED]), "default")
    claim = await generated(client)

    async def says_so() -> bool:
        return "devices" in await message(client)

    await eventually(says_so)
    await allocate(client, claim, "a")
    assert (await running_pod(client))["spec"]["nodeName"] == "n-1"


async def test_a_claim_that_went_is_made_again(client: Client) -> None:
    await client.create(TEMPLATES, TEMPLATE, "default")
    await client.create(PODS, pod("a", resourceClaims=[WANTED]), "default")
    first = await generated(client)
    await client.delete(CLAIMS, first, "default")

    async def again() -> bool:
        return await generated(client) != first

    await eventually(again)
    assert await find(client, CLAIMS, await generated(client))


async def test_a_shared_claim_is_free_when_its_last_pod_has_gone(client: Client) -> None:
    shared = {"name": "gpu", "resourceClaimName": "ours"}
    await client.create(CLAIMS, {"metadata": {"name": "ours"}, "spec": SPEC}, "default")
    for name in ("a", "b"):
        await client.create(PODS, pod(name, resourceClaims=[shared]), "default")
    await allocate(client, "ours", "a", "b")
    await running_pod(client, "a")
    await running_pod(client, "b")
    await client.delete(PODS, "a", "default")
    await gone(client, PODS, "a")

    async def users() -> list[str]:
        status = (await find(client, CLAIMS, "ours")).get("status", {})
        return [each["name"] for each in status.get("reservedFor", [])]

    async def only_b() -> bool:
        return await users() == ["b"]

    await eventually(only_b)
    assert (await find(client, CLAIMS, "ours"))["status"]["allocation"]
    await client.delete(PODS, "b", "default")

    async def free() -> bool:
        claim = await find(client, CLAIMS, "ours")
        return not claim["status"] and not claim["metadata"].get("finalizers")

    await eventually(free)


async def test_a_generated_claim_goes_when_its_pod_has_ended(client: Client) -> None:
    await client.create(TEMPLATES, TEMPLATE, "default")
    await client.create(PODS, pod("a", resourceClaims=[WANTED]), "default")
    claim = await generated(client)
    await allocate(client, claim, "a")
    await running_pod(client)
    await client.patch(
        PODS, "a", {"status": {"phase": "Succeeded"}}, "default", subresource="status"
    )
    await gone(client, CLAIMS, claim)
    await settle()
    assert (await client.list(CLAIMS, "default")).items == []


async def test_a_claim_being_deleted_waits_for_its_users(client: Client) -> None:
    shared = {"name": "gpu", "resourceClaimName": "ours"}
    await client.create(CLAIMS, {"metadata": {"name": "ours"}, "spec": SPEC}, "default")
    await client.create(PODS, pod("a", resourceClaims=[shared]), "default")
    await allocate(client, "ours", "a")
    await running_pod(client)
    await client.delete(CLAIMS, "ours", "default")
    await settle()
    assert (await find(client, CLAIMS, "ours"))["metadata"]["deletionTimestamp"]
    await client.delete(PODS, "a", "default")
    await gone(client, CLAIMS, "ours")


async def test_a_claim_made_before_a_crash_is_found_again(tmp_path: Path) -> None:
    without = "*,-resourceclaim-controller"
    async with running(data=tmp_path, controllers=without) as cluster:
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
    async with running(data=tmp_path) as cluster:
        client = cluster.client("test")
        assert await generated(client) == "a-gpu-before"
        await settle()
        assert len((await client.list(CLAIMS, "default")).items) == 1
