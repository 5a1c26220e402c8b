"""StatefulSets of an embedded cluster with simulated nodes, in virtual time."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from kilonova.kube import Client, PatchType
from tests.local.controllers.apps.manifests import (
    CLAIMS,
    REVISIONS,
    STATEFUL_SETS,
    cluster,
    pods_of,
    reasons,
    set_image,
    wait_for_status,
    workload,
)
from tests.local.embedded_cluster import (
    PODS,
    advance_time,
    find,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)

pytestmark = virtual_time

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with cluster() as found:
        yield found


async def wait_settled(client: Client, replicas: int, name: str = "web") -> Any:
    return await wait_for_status(
        client,
        STATEFUL_SETS,
        name,
        replicas=replicas,
        readyReplicas=replicas,
        availableReplicas=replicas,
        updatedReplicas=replicas,
        currentReplicas=replicas,
    )


async def test_pods_are_created_one_after_the_other_with_ordinals(client: Client) -> None:
    await client.create(STATEFUL_SETS, workload(replicas=3, serviceName="peers"), "default")
    done = await wait_settled(client, 3)
    pods = sorted(await pods_of(client), key=lambda pod: pod["metadata"]["name"])
    assert [pod["metadata"]["name"] for pod in pods] == ["web-0", "web-1", "web-2"]
    times = [pod["metadata"]["creationTimestamp"] for pod in pods]
    assert times == sorted(set(times))
    first = pods[0]
    assert first["metadata"]["labels"] == {
        "app": "web",
        "apps.kubernetes.io/pod-index": "0",
        "controller-revision-hash": done["status"]["updateRevision"],
        "statefulset.kubernetes.io/pod-name": "web-0",
        "topology.kubernetes.io/zone": "zone-a",
    }
    assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("web-0", "peers")
    assert await reasons(client, "StatefulSet", "web") == ["SuccessfulCreate"] * 3


async def test_a_new_template_reaches_the_last_pod_first(client: Client) -> None:
    await client.create(STATEFUL_SETS, workload(replicas=2), "default")
    before = await wait_settled(client, 2)
    await set_image(client, STATEFUL_SETS, "img:2")
    after = await wait_settled(client, 2)
    assert after["status"]["currentRevision"] == after["status"]["updateRevision"]
    assert after["status"]["currentRevision"] != before["status"]["currentRevision"]
    pods = {pod["metadata"]["name"]: pod for pod in await pods_of(client)}
    assert {pod["spec"]["containers"][0]["image"] for pod in pods.values()} == {"img:2"}
    assert (
        pods["web-1"]["metadata"]["creationTimestamp"]
        < pods["web-0"]["metadata"]["creationTimestamp"]
    )
    revisions = (await client.list(REVISIONS, "default")).items
    assert sorted(each["revision"] for each in revisions) == [1, 2]


async def test_the_data_of_a_revision_puts_its_template_back(client: Client) -> None:
    await client.create(STATEFUL_SETS, workload(replicas=1), "default")
    before = await wait_settled(client, 1)
    await set_image(client, STATEFUL_SETS, "img:2")
    await wait_settled(client, 1)
    first = min((await client.list(REVISIONS, "default")).items, key=lambda each: each["revision"])
    await client.patch(
        STATEFUL_SETS, "web", first["data"], "default", patch_type=PatchType.STRATEGIC
    )
    after = await wait_settled(client, 1)
    assert after["spec"]["template"] == before["spec"]["template"]
    revisions = (await client.list(REVISIONS, "default")).items
    assert sorted(each["revision"] for each in revisions) == [2, 3]


async def test_on_delete_waits_for_manual_deletion(client: Client) -> None:
    made = workload(replicas=1, updateStrategy={"type": "OnDelete"})
    await client.create(STATEFUL_SETS, made, "default")
    await wait_for_status(client, STATEFUL_SETS, availableReplicas=1)
    await set_image(client, STATEFUL_SETS, "img:2")
    await advance_time(30)
    (pod,) = await pods_of(client)
    assert pod["spec"]["containers"][0]["image"] == "img:1"
    await client.delete(PODS, "web-0", "default")
    await wait_for_status(client, STATEFUL_SETS, availableReplicas=1, updatedReplicas=1)


async def test_claims_are_retained_or_deleted_by_policy(client: Client) -> None:
    policy = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    made = workload(
        replicas=2, volumeClaimTemplates=[CLAIM], persistentVolumeClaimRetentionPolicy=policy
    )
    await client.create(STATEFUL_SETS, made, "default")
    await wait_settled(client, 2)
    kept = await client.get(CLAIMS, "data-web-0", "default")
    assert kept["metadata"]["labels"] == {"app": "web"}
    assert "ownerReferences" not in kept["metadata"]
    lost = await client.get(CLAIMS, "data-web-1", "default")
    await client.set_scale(STATEFUL_SETS, "web", "default", 1)
    await wait_settled(client, 1)

    async def without_pod() -> bool:
        found = await find(client, CLAIMS, "data-web-1")
        return found is None or "deletionTimestamp" in found["metadata"]

    await wait_for_condition(without_pod)
    found = await find(client, CLAIMS, "data-web-1")
    if found is not None and found["metadata"].get("finalizers"):
        # Protection of claims in use removes them later; its controller may not be running.
        free = {"metadata": {"finalizers": None}}
        await client.patch(CLAIMS, "data-web-1", free, "default")
    await client.set_scale(STATEFUL_SETS, "web", "default", 2)
    await wait_settled(client, 2)
    again = await client.get(CLAIMS, "data-web-1", "default")
    assert again["metadata"]["uid"] != lost["metadata"]["uid"]
    await client.delete(STATEFUL_SETS, "web", "default")
    await wait_deleted(client, PODS, "web-0")
    assert await find(client, CLAIMS, "data-web-0") is not None


async def test_orphaned_pod_is_adopted_again(client: Client) -> None:
    await client.create(STATEFUL_SETS, workload(replicas=2), "default")
    await wait_settled(client, 2)
    uids = {pod["metadata"]["uid"] for pod in await pods_of(client)}
    await client.delete(STATEFUL_SETS, "web", "default", propagation_policy="Orphan")
    await wait_deleted(client, STATEFUL_SETS, "web")
    await client.create(STATEFUL_SETS, workload(replicas=2), "default")
    await wait_settled(client, 2)
    assert {pod["metadata"]["uid"] for pod in await pods_of(client)} == uids


async def test_failed_pod_is_recreated_with_its_name(client: Client) -> None:
    await client.create(STATEFUL_SETS, workload(replicas=1), "default")
    await wait_settled(client, 1)
    (before,) = await pods_of(client)
    failed = {"status": {"phase": "Failed"}}
    await client.patch(PODS, "web-0", failed, "default", subresource="status")

    async def another() -> bool:
        found = await find(client, PODS, "web-0")
        return found is not None and found["metadata"]["uid"] != before["metadata"]["uid"]

    await wait_for_condition(another)
    await wait_settled(client, 1)
