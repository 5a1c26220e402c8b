"""ResourceSlices are written when, and only when, they differ."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.gpu.devices.model import HealthState
from kilonova.gpu.dra import SlicePublisher, build_resource_slices
from kilonova.gpu.dra.slice_publisher import SLICES, SliceChanges, plan_changes
from kilonova.gpu.kubelet import InventoryFeed
from kilonova.kube import Client
from tests.gpu.deviceplugin.node_pods import machine, with_health
from tests.local.embedded_cluster import (
    NODES,
    advance_time,
    run_cluster,
    virtual_time,
    wait_for_condition,
)

DRIVER = "gpu.kilonova.dev"
NODE = machine("h100:4")
SICK = with_health(NODE, 1, HealthState.UNHEALTHY)


def slices(node: Any = NODE, generation: int = 1) -> list[JsonObject]:
    return build_resource_slices("n-1", "uid-1", DRIVER, node, generation=generation)


def names(changes: SliceChanges) -> tuple[list[str], list[str]]:
    written = [each["metadata"]["name"].rpartition("-")[2] for each in changes.written]
    return written, [each.rpartition("-")[2] for each in changes.deleted]


def test_published_slices_are_left_alone() -> None:
    assert plan_changes(slices(), slices()) == SliceChanges()
    # The API server adds the time to taints.
    stored = slices(SICK)
    for each in stored:
        for device in each["spec"].get("devices", ()):
            for taint in device.get("taints", ()):
                taint["timeAdded"] = "2026-01-01T00:00:00Z"
    assert plan_changes(stored, slices(SICK)) == SliceChanges()


def test_changed_health_is_written_to_the_slices_with_the_device_alone() -> None:
    changes = plan_changes(slices(generation=3), slices(SICK))
    assert names(changes) == (["1"], [])
    assert changes.written[0]["spec"]["pool"]["generation"] == 3


def test_other_devices_are_a_new_generation_of_all_slices() -> None:
    changes = plan_changes(slices(machine("h100:8"), 3), slices())
    assert names(changes) == (["0", "1", "2"], ["3", "4"])
    assert {each["spec"]["pool"]["generation"] for each in changes.written} == {4}


def test_missing_slice_is_a_new_generation() -> None:
    changes = plan_changes(slices(generation=2)[1:], slices())
    assert names(changes) == (["0", "1", "2"], [])
    assert {each["spec"]["pool"]["generation"] for each in changes.written} == {3}


def test_publication_that_was_cut_off_is_made_whole() -> None:
    first, *others = slices(generation=2)
    mixed = [*slices(generation=3)[:1], *others]
    assert first["metadata"]["name"] == mixed[0]["metadata"]["name"]
    assert names(plan_changes(mixed, slices()))[0] == ["0", "1", "2"]


def test_slices_of_an_earlier_node_of_the_name_are_replaced() -> None:
    old = build_resource_slices("n-1", "uid-0", DRIVER, NODE)
    assert names(plan_changes(old, slices()))[0] == ["0", "1", "2"]


@asynccontextmanager
async def publishing(client: Client, feed: InventoryFeed) -> AsyncGenerator[SlicePublisher]:
    node = await client.create(NODES, {"metadata": {"name": "n-1"}})
    publisher = SlicePublisher(
        client, "n-1", node["metadata"]["uid"], DRIVER, feed, find_root=lambda pci: "pci0000:15"
    )
    running = asyncio.create_task(publisher.run())
    try:
        yield publisher
    finally:
        running.cancel()
        await asyncio.wait([running])


async def read_slices(client: Client) -> list[JsonObject]:
    found = (await client.list(SLICES, field_selector=f"spec.driver={DRIVER}")).items
    return sorted(found, key=lambda each: each["metadata"]["name"])


async def wait_for_slices(client: Client, count: int, taints: int = 0) -> list[JsonObject]:
    async def are_there() -> bool:
        found = await read_slices(client)
        devices = [d for each in found for d in each["spec"].get("devices") or ()]
        return len(found) == count and sum(bool(d.get("taints")) for d in devices) == taints

    await wait_for_condition(are_there)
    return await read_slices(client)


@virtual_time
async def test_slices_follow_the_inventory_and_are_made_again() -> None:
    async with run_cluster() as cluster:
        client = cluster.client("test")
        feed = InventoryFeed(NODE)
        async with publishing(client, feed):
            before = await wait_for_slices(client, 3)
            assert {each["spec"]["pool"]["generation"] for each in before} == {1}
            root = before[1]["spec"]["devices"][0]["attributes"]["resource.kubernetes.io/pcieRoot"]
            assert root == {"string": "pci0000:15"}

            await feed.publish(SICK)
            after = await wait_for_slices(client, 3, taints=26)
            assert [a["metadata"]["resourceVersion"] for a in after[::2]] == [
                b["metadata"]["resourceVersion"] for b in before[::2]
            ]

            # As the kubelet does for a driver that was gone.
            for each in after:
                await client.delete(SLICES, each["metadata"]["name"])
            await wait_for_slices(client, 3, taints=26)

            await feed.publish(machine("h100:1"))
            (_, last) = await wait_for_slices(client, 2)
            assert last["spec"]["pool"]["resourceSliceCount"] == 2

            settled = await read_slices(client)
            await advance_time(60)
            assert await read_slices(client) == settled
