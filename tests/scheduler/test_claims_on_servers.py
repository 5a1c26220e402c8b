"""Claims on both servers, each with its own controller for claims: what we write, they accept."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.api.crds import definitions
from kilonova.kube import Client
from kilonova.kube.access import connect
from kilonova.scheduler.scheduler import build_scheduler
from kilonova.scheduler.settings import Settings
from tests.harness.access import Access
from tests.local.embedded_cluster import DEFINITIONS, NODES, PODS, eventually
from tests.scheduler.dra import (
    CLAIMS,
    DRIVER,
    asking,
    given,
    make_claim,
    make_class,
    make_template,
    of_claim,
    of_template,
    publish,
    publish_slice,
)
from tests.scheduler.scheduling import (
    GANGS,
    QUEUES,
    all_placed,
    create_gang,
    is_served,
    nodes_of,
    pod,
)
from tests.scheduler.servers import server_with
from tests.workloads.ground import parts_running

NS = "default"


@pytest.fixture(scope="module", params=["embedded", "kubernetes"])
def access(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Access]:
    """A server that makes claims from templates and takes them back."""
    folder = tmp_path_factory.mktemp(request.param)
    with server_with("resourceclaim-controller", request.param, folder) as found:
        yield found


@asynccontextmanager
async def stage(access: Access, *nodes: str) -> AsyncGenerator[Client]:
    """A server with nodes and our scheduler; afterwards it is as it was."""
    async with connect(access.kubeconfig) as client:
        known = {each["metadata"]["name"] for each in (await client.list(DEFINITIONS)).items}
        for definition in definitions():
            if definition["metadata"]["name"] not in known:
                await client.create(DEFINITIONS, definition)
        for resource in (GANGS, QUEUES):
            await eventually(lambda each=resource: is_served(client, each))
        for name in nodes:
            await client.create(NODES, _node(name))
        scheduler = build_scheduler(client, Settings())
        async with parts_running(scheduler.parts, scheduler.leading):
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
    """Removes pods that nobody runs, and waits until nothing is allocated any more."""
    for name in pods:
        await client.delete(PODS, name, NS, grace=0)

    async def is_free() -> bool:
        return not await given(client, NS)

    await eventually(is_free)


async def test_a_claim_from_a_template_gets_devices_and_gives_them_back(access: Access) -> None:
    async with stage(access, "a0", "a1") as client:
        config = [{"opaque": {"driver": DRIVER, "parameters": {"kind": "GpuConfig"}}}]
        await make_class(client, "templated", config=config)
        await publish(client, "a1", 1)
        selector = (
            f'device.attributes["{DRIVER}"].type == "gpu" && '
            f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0'
        )
        await make_template(client, NS, "one", asking(1, selector, "templated"))
        await client.create(PODS, pod("first", 0, **of_template("one")), NS)
        await eventually(all_placed(client, ["first"]))
        assert (await nodes_of(client))["first"] == "a1"
        (claim,) = (await client.list(CLAIMS, NS)).items
        assert claim["status"]["allocation"]["devices"]["config"] == [
            {"source": "FromClass", "requests": ["gpu"], **config[0]}
        ]
        await remove(client, "first")
        await client.create(PODS, pod("second", 0, **of_template("one")), NS)
        await eventually(all_placed(client, ["second"]))
        await remove(client, "second")


async def test_a_gang_shares_a_claim(access: Access) -> None:
    async with stage(access, "b0", "b1") as client:
        await make_class(client, "shared")
        for node in ("b0", "b1"):
            await publish(client, node, 1)
        await make_claim(client, NS, "ours", asking(class_="shared"))
        names = await create_gang(client, "g", 3, gpus=0, **of_claim("ours"))
        await eventually(all_placed(client, names))
        assert len(set((await nodes_of(client)).values())) == 1
        claim = await client.get(CLAIMS, "ours", NS)
        assert {each["name"] for each in claim["status"]["reservedFor"]} == set(names)
        await remove(client, *names)
        assert await client.get(CLAIMS, "ours", NS)


async def test_parts_of_a_shared_device_and_the_first_that_is_available(access: Access) -> None:
    async with stage(access, "c0") as client:
        await make_class(client, "parts")
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
        await make_template(client, NS, "part", {"devices": {"requests": requests}})
        for name in ("x", "y"):
            await client.create(PODS, pod(name, 0, **of_template("part")), NS)
        await eventually(all_placed(client, ["x", "y"]))
        results = [
            claim["status"]["allocation"]["devices"]["results"][0]
            for claim in (await client.list(CLAIMS, NS)).items
            if "allocation" in claim.get("status", {})
        ]
        assert [each["request"] for each in results] == ["r/cheap", "r/cheap"]
        assert [each["consumedCapacity"]["memory"] for each in results] == ["4Gi", "4Gi"]
        assert len({each["shareID"] for each in results}) == 2
        await remove(client, "x", "y")


async def test_an_extended_resource_of_a_class_is_claimed_for_its_pod(access: Access) -> None:
    async with stage(access, "x0", "x1") as client:
        await make_class(client, "extended", extendedResourceName="example.com/extended")
        await publish(client, "x1", 2)
        wanted, amounts = pod("extended", 0), {"example.com/extended": "2"}
        wanted["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        await client.create(PODS, wanted, NS)
        await eventually(all_placed(client, ["extended"]))
        assert (await nodes_of(client))["extended"] == "x1"
        (name, devices), *others = (await given(client, NS)).items()
        assert (sorted(devices), others) == (["x1/gpu-0", "x1/gpu-1"], [])
        status = (await client.get(PODS, "extended", NS))["status"]
        assert status["extendedResourceClaimStatus"]["resourceClaimName"] == name
        await remove(client, "extended")
