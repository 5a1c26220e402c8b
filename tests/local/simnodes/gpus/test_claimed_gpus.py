"""Simulated nodes publish their GPUs for claims, and never let two pods use one."""

from typing import Any

import pytest

from kilonova.api.gpu.annotations import DEVICES, TOPOLOGY, Topology, parse_topology
from kilonova.kube import Client
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.simnodes.fleet.model import Fleet, GpuSpec, NodeGroup
from kilonova.local.simnodes.gpus.resource_slices import DRIVER, build_resource_slices
from tests.local.embedded_cluster import NODES, PODS, pod, run_cluster, wait_for_condition

SLICES = unstructured_resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
CLASSES = unstructured_resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)
CLAIMS = unstructured_resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True)
NS = "default"

pytestmark = pytest.mark.looptime


def fleet(dra: Any = "gpu", count: int = 2) -> Fleet:
    gpu = GpuSpec("NVIDIA-H100-80GB-HBM3", count, dra=dra)
    return Fleet((NodeGroup("n", gpu=gpu, start="1s"),))


async def list_devices(client: Client, count: int) -> list[Any]:
    """The devices of the node's pool, when so many slices are published."""

    async def are_published() -> bool:
        return len((await client.list(SLICES)).items) == count

    await wait_for_condition(are_published)
    slices = (await client.list(SLICES)).items
    return [device for each in slices for device in each["spec"].get("devices", ())]


async def allocate(client: Client, name: str, devices: list[str], *users: Any) -> None:
    """A claim, allocated as a scheduler does, for some pods."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    await client.create(CLAIMS, body, NS)
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": "n-0", "device": device} for device in devices
    ]
    reserved = [
        {"resource": "pods", "name": each["metadata"]["name"], "uid": each["metadata"]["uid"]}
        for each in users
    ]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    await client.patch(CLAIMS, name, {"status": status}, NS, subresource="status")


def claiming(name: str, claim: str) -> Any:
    claims = [{"name": "gpu", "resourceClaimName": claim}]
    return pod(name, nodeName="n-0", resourceClaims=claims)


def assigned(name: str, devices: str) -> Any:
    return pod(name, nodeName="n-0", metadata={"annotations": {DEVICES: devices}})


async def phase(client: Client, name: str) -> str:
    found = await client.get(PODS, name, NS)
    return f"{found['status'].get('phase')} {found['status'].get('reason') or ''}".strip()


async def wait_for_phase(client: Client, name: str, expected: str) -> None:
    async def is_reached() -> bool:
        return await phase(client, name) == expected

    await wait_for_condition(is_reached)


async def test_gpus_are_published_with_the_same_uuids() -> None:
    async with run_cluster(fleet=fleet()) as cluster:
        client = cluster.client("test")
        devices = await list_devices(client, 1)
        node = await client.get(NODES, "n-0")
        topology = parse_topology(node["metadata"]["annotations"][TOPOLOGY])
        assert isinstance(topology, Topology)
        uuids = [each["attributes"]["uuid"]["string"] for each in devices]
        assert uuids == [gpu.uuid for gpu in topology.gpus]
        [slice_] = (await client.list(SLICES)).items
        assert slice_["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]
        assert {each["metadata"]["name"] for each in (await client.list(CLASSES)).items} == {
            "gpu.nvidia.com",
            "mig.nvidia.com",
        }


async def test_mig_instances_are_published_with_counters() -> None:
    async with run_cluster(fleet=fleet("mig")) as cluster:
        devices = await list_devices(cluster.client("test"), 2)
        parts = [each for each in devices if each["name"].startswith("gpu-1")]
        assert len(parts) == 26 - 7  # without those with the media extension
        half = next(each for each in parts if each["name"] == "gpu-1-mig-3g40gb-9-4")
        [consumed] = half["consumesCounters"]
        assert sorted(consumed["counters"]) == [f"memory-slice-{n}" for n in (4, 5, 6, 7)]


async def test_claimed_gpu_is_refused_to_other_pods() -> None:
    async with run_cluster(fleet=fleet()) as cluster:
        client = cluster.client("test")
        await list_devices(client, 1)
        user = await client.create(PODS, claiming("user", "c"), NS)
        await allocate(client, "c", ["gpu-0"], user)
        await wait_for_phase(client, "user", "Running")
        await client.create(PODS, assigned("same", "0"), NS)
        await client.create(PODS, assigned("share", "0:100"), NS)
        await client.create(PODS, assigned("other", "1"), NS)
        await wait_for_phase(client, "same", "Failed UnexpectedAdmissionError")
        await wait_for_phase(client, "share", "Failed UnexpectedAdmissionError")
        await wait_for_phase(client, "other", "Running")
        late = await client.create(PODS, claiming("late", "d"), NS)
        await allocate(client, "d", ["gpu-1"], late)
        await wait_for_phase(client, "late", "Failed UnexpectedAdmissionError")


async def test_pods_that_share_a_claim_share_its_gpu() -> None:
    async with run_cluster(fleet=fleet(count=1)) as cluster:
        client = cluster.client("test")
        users = [await client.create(PODS, claiming(name, "c"), NS) for name in ("one", "two")]
        await allocate(client, "c", ["gpu-0"], *users)
        for name in ("one", "two"):
            await wait_for_phase(client, name, "Running")
        await client.delete(PODS, "one", NS, grace_period_seconds=0)
        await client.create(PODS, assigned("early", "0"), NS)
        await wait_for_phase(client, "early", "Failed UnexpectedAdmissionError")
        await client.delete(PODS, "two", NS, grace_period_seconds=0)
        await client.create(PODS, assigned("after", "0"), NS)
        await wait_for_phase(client, "after", "Running")


async def test_overlapping_instances_are_refused_and_others_published() -> None:
    async with run_cluster(fleet=fleet("mig", 1)) as cluster:
        client = cluster.client("test")
        user = await client.create(PODS, claiming("user", "c"), NS)
        await allocate(client, "c", ["gpu-0-mig-3g40gb-9-4"], user)
        await wait_for_phase(client, "user", "Running")
        await client.create(PODS, assigned("over", "0:1g.10gb@6"), NS)
        await client.create(PODS, assigned("beside", "0:2g.20gb@0"), NS)
        await wait_for_phase(client, "over", "Failed UnexpectedAdmissionError")
        await wait_for_phase(client, "beside", "Running")

        async def instances() -> list[tuple[str, int]]:
            node = await client.get(NODES, "n-0")
            topology = parse_topology(node["metadata"]["annotations"][TOPOLOGY])
            assert isinstance(topology, Topology)
            return [(each.profile, each.start) for each in topology.gpus[0].instances]

        async def are_published() -> bool:
            return await instances() == [("2g.20gb", 0), ("3g.40gb", 4)]

        await wait_for_condition(are_published)


def test_pool_of_eight_gpus_keeps_within_the_limits_of_slices() -> None:
    slices = build_resource_slices("n-0", "uid", GpuSpec("NVIDIA-H200", 8, "141Gi", dra="mig"))
    assert all(len(each["spec"].get("devices", ())) <= 64 for each in slices)
    assert {each["spec"]["pool"]["resourceSliceCount"] for each in slices} == {len(slices)}
    names = [device["name"] for each in slices for device in each["spec"].get("devices", ())]
    assert len(names) == len(set(names)) == 8 * 19
