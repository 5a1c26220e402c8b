"""Claims on both API servers, each with its own ResourceClaim controller."""

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.api.crds import load_definitions
from kilonova.api.gpu.annotations import DEVICES, TOPOLOGY
from kilonova.kube import Client
from kilonova.kube.client.config.client_config import connect
from kilonova.scheduler.assembly import build_scheduler
from kilonova.scheduler.settings import SchedulerSettings
from tests.harness.access import ServerAccess
from tests.local.embedded_cluster import DEFINITIONS, NODES, PODS, wait_for_condition
from tests.scheduler.harness.dra_objects import (
    CLAIMS,
    DRIVER,
    allocated_devices,
    claim_spec,
    create_claim,
    create_claim_template,
    create_device_class,
    pod_claim_by_name,
    pod_claim_from_template,
    publish_node_devices,
    publish_slice,
)
from tests.scheduler.harness.embedded_scheduler import (
    GANGS,
    QUEUES,
    are_all_placed,
    create_gang,
    is_served,
    nodes_by_pod,
    pod,
)
from tests.scheduler.harness.servers import server_with
from tests.workloads.workload_cluster import run_runnables

NS = "default"


@pytest.fixture(scope="module", params=["embedded", "kubernetes"])
def access(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerAccess]:
    """A server with a ResourceClaim controller."""
    folder = tmp_path_factory.mktemp(request.param)
    with server_with("resourceclaim-controller", request.param, folder) as found:
        yield found


@asynccontextmanager
async def stage(access: ServerAccess, *nodes: str) -> AsyncGenerator[Client]:
    """A server with nodes and our scheduler; cleaned up afterwards."""
    async with connect(access.kubeconfig) as client:
        known = {each["metadata"]["name"] for each in (await client.list(DEFINITIONS)).items}
        for definition in load_definitions():
            if definition["metadata"]["name"] not in known:
                await client.create(DEFINITIONS, definition)
        for resource in (GANGS, QUEUES):
            await wait_for_condition(lambda each=resource: is_served(client, each))
        for name in nodes:
            await client.create(NODES, _node(name))
        scheduler = build_scheduler(client, SchedulerSettings())
        async with run_runnables(scheduler.runnables, scheduler.leader_runnables):
            yield client
        for name in nodes:
            await client.delete(NODES, name)


def _node(name: str) -> dict[str, Any]:
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    return {
        "metadata": {"name": name},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


async def remove(client: Client, *pods: str) -> None:
    """Delete pods, which no kubelet runs, and wait until nothing is allocated."""
    for name in pods:
        await client.delete(PODS, name, NS, grace_period_seconds=0)

    async def is_free() -> bool:
        return not await allocated_devices(client, NS)

    await wait_for_condition(is_free)


async def test_claim_from_a_template_is_allocated_and_deallocated(access: ServerAccess) -> None:
    async with stage(access, "a0", "a1") as client:
        config = [{"opaque": {"driver": DRIVER, "parameters": {"kind": "GpuConfig"}}}]
        await create_device_class(client, "templated", config=config)
        await publish_node_devices(client, "a1", 1)
        selector = (
            f'device.attributes["{DRIVER}"].type == "gpu" && '
            f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
        )
        await create_claim_template(client, NS, "one", claim_spec(1, selector, "templated"))
        await client.create(PODS, pod("first", 0, **pod_claim_from_template("one")), NS)
        await wait_for_condition(are_all_placed(client, ["first"]))
        assert (await nodes_by_pod(client))["first"] == "a1"
        (claim,) = (await client.list(CLAIMS, NS)).items
        assert claim["status"]["allocation"]["devices"]["config"] == [
            {"source": "FromClass", "requests": ["gpu"], **config[0]}
        ]
        await remove(client, "first")
        await client.create(PODS, pod("second", 0, **pod_claim_from_template("one")), NS)
        await wait_for_condition(are_all_placed(client, ["second"]))
        await remove(client, "second")


async def test_gang_shares_a_claim(access: ServerAccess) -> None:
    async with stage(access, "b0", "b1") as client:
        await create_device_class(client, "shared")
        for node in ("b0", "b1"):
            await publish_node_devices(client, node, 1)
        await create_claim(client, NS, "ours", claim_spec(class_="shared"))
        names = await create_gang(client, "g", 3, gpus=0, **pod_claim_by_name("ours"))
        await wait_for_condition(are_all_placed(client, names))
        assert len(set((await nodes_by_pod(client)).values())) == 1
        claim = await client.get(CLAIMS, "ours", NS)
        assert {each["name"] for each in claim["status"]["reservedFor"]} == set(names)
        await remove(client, *names)
        assert await client.get(CLAIMS, "ours", NS)


async def test_shared_device_capacity_and_first_available_requests(access: ServerAccess) -> None:
    async with stage(access, "c0") as client:
        await create_device_class(client, "parts")
        policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
        memory = {"value": "10Gi", "requestPolicy": policy}
        shared = {"name": "s", "allowMultipleAllocations": True, "capacity": {"memory": memory}}
        await publish_slice(client, "c0", {"nodeName": "c0", "devices": [shared]})
        part = {"deviceClassName": "parts", "capacity": {"requests": {"memory": "3900Mi"}}}
        dear = {
            "name": "dear",
            "deviceClassName": "parts",
            "selectors": [{"cel": {"expression": "!device.allowMultipleAllocations"}}],
        }
        requests = [{"name": "r", "firstAvailable": [dear, {"name": "cheap", **part}]}]
        await create_claim_template(client, NS, "part", {"devices": {"requests": requests}})
        for name in ("x", "y"):
            await client.create(PODS, pod(name, 0, **pod_claim_from_template("part")), NS)
        await wait_for_condition(are_all_placed(client, ["x", "y"]))
        results = [
            claim["status"]["allocation"]["devices"]["results"][0]
            for claim in (await client.list(CLAIMS, NS)).items
            if "allocation" in claim.get("status", {})
        ]
        assert [each["request"] for each in results] == ["r/cheap", "r/cheap"]
        assert [each["consumedCapacity"]["memory"] for each in results] == ["4Gi", "4Gi"]
        assert len({each["shareID"] for each in results}) == 2
        await remove(client, "x", "y")


async def test_extended_resource_of_a_class_is_claimed_for_its_pod(access: ServerAccess) -> None:
    async with stage(access, "x0", "x1") as client:
        await create_device_class(client, "extended", extendedResourceName="example.com/extended")
        await publish_node_devices(client, "x1", 2)
        wanted, amounts = pod("extended", 0), {"example.com/extended": "2"}
        wanted["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        await client.create(PODS, wanted, NS)
        await wait_for_condition(are_all_placed(client, ["extended"]))
        assert (await nodes_by_pod(client))["extended"] == "x1"
        (name, devices), *others = (await allocated_devices(client, NS)).items()
        assert (sorted(devices), others) == (["x1/gpu-0", "x1/gpu-1"], [])
        status = (await client.get(PODS, "extended", NS))["status"]
        assert status["extendedResourceClaimStatus"]["resourceClaimName"] == name
        await remove(client, "extended")


async def test_gpu_is_given_to_a_claim_or_to_a_pod(access: ServerAccess) -> None:
    """A node lists two GPUs, and a driver publishes the same two."""
    async with stage(access, "twice") as client:
        uuids = ("GPU-first", "GPU-second")
        topology = json.dumps({"gpus": [{"uuid": uuid} for uuid in uuids]})
        capacity = {"nvidia.com/gpu": "2"}
        await client.patch(NODES, "twice", {"metadata": {"annotations": {TOPOLOGY: topology}}})
        status = {"status": {"capacity": capacity, "allocatable": capacity}}
        await client.patch(NODES, "twice", status, subresource="status")
        devices = [
            {"name": f"d-{number}", "attributes": {"uuid": {"string": uuid}}}
            for number, uuid in enumerate(reversed(uuids))
        ]
        await create_device_class(client, "twice")
        await publish_slice(client, "twice", {"nodeName": "twice", "devices": devices})
        await create_claim_template(client, NS, "twice", claim_spec(class_="twice"))
        await client.create(PODS, pod("by-claim", 0, **pod_claim_from_template("twice")), NS)
        await wait_for_condition(are_all_placed(client, ["by-claim"]))
        await client.create(PODS, pod("by-count", 1), NS)
        await wait_for_condition(are_all_placed(client, ["by-count"]))
        ((device,),) = (await allocated_devices(client, NS)).values()
        found = (await client.get(PODS, "by-count", NS))["metadata"]["annotations"][DEVICES]
        assert (device, found) in {("twice/d-0", "0"), ("twice/d-1", "1")}
        await remove(client, "by-claim", "by-count")
