"""Bound pods that change: resized in place, relabelled, given other devices."""

from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.client import PatchKind
from kilonova.scheduler.settings import Settings
from tests.local.embedded_cluster import PODS, eventually, settle, virtual_time
from tests.scheduler.scheduling import all_placed, fleet, nodes_of, pod, scheduling

pytestmark = virtual_time


def cpu_pod(name: str, cpu: str, **labels: str) -> dict[str, Any]:
    """A pod that asks for processors only."""
    body = pod(name, 0)
    body["metadata"]["labels"] = labels
    body["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
    return body


async def resize(client: Client, name: str, cpu: str) -> None:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    await client.patch(
        PODS,
        name,
        {"spec": {"containers": [container]}},
        "default",
        kind=PatchKind.STRATEGIC,
        subresource="resize",
    )


async def report(client: Client, name: str, cpu: str, *conditions: dict[str, Any]) -> None:
    """What a kubelet says that a container has."""

    async def runs() -> bool:
        found = await client.get(PODS, name, "default")
        return bool(found["status"].get("containerStatuses"))

    await eventually(runs)
    found = await client.get(PODS, name, "default")
    statuses = [
        {**each, "resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}
        for each in found["status"]["containerStatuses"]
    ]
    others = [c for c in found["status"]["conditions"] if c["type"] != "PodResizePending"]
    status = {"containerStatuses": statuses, "conditions": [*others, *conditions]}
    await client.patch(PODS, name, {"status": status}, "default", subresource="status")


PENDING = {"type": "PodResizePending", "status": "True", "lastTransitionTime": None}


async def test_a_pod_that_was_resized_counts_as_what_it_is_now() -> None:
    """A node has 64 processors."""
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, cpu_pod("first", "10"), "default")
        await eventually(all_placed(client, ["first"]))
        await resize(client, "first", "40")
        await client.create(PODS, cpu_pod("large", "40"), "default")
        await client.create(PODS, cpu_pod("small", "20"), "default")
        await eventually(all_placed(client, ["small"]))
        await settle(30)
        assert (await nodes_of(client))["large"] == ""
        await resize(client, "first", "1")
        await report(client, "first", "1")
        await eventually(all_placed(client, ["large"]))


@pytest.mark.parametrize(
    ("reason", "fits"), [("Deferred", False), ("Infeasible", True)], ids=["deferred", "infeasible"]
)
async def test_a_resize_that_waits_counts_and_one_that_never_happens_does_not(
    reason: str, fits: bool
) -> None:
    async with scheduling(fleet(1), Settings(retry=5)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, cpu_pod("first", "10"), "default")
        await eventually(all_placed(client, ["first"]))
        await resize(client, "first", "60")
        await report(client, "first", "10", {**PENDING, "reason": reason})
        await client.create(PODS, cpu_pod("second", "40"), "default")
        await settle(30)
        assert bool((await nodes_of(client))["second"]) is fits


async def test_what_a_kubelet_has_not_given_up_yet_counts() -> None:
    async with scheduling(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, cpu_pod("first", "60"), "default")
        await eventually(all_placed(client, ["first"]))
        await report(client, "first", "60")
        await resize(client, "first", "10")
        await client.create(PODS, cpu_pod("second", "40"), "default")
        await settle(30)
        assert (await nodes_of(client))["second"] == ""
        await report(client, "first", "10")
        await eventually(all_placed(client, ["second"]))


async def test_a_pod_that_was_relabelled_counts_for_affinity_as_what_it_says_now() -> None:
    async with scheduling(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, cpu_pod("web", "1", app="other"), "default")
        await eventually(all_placed(client, ["web"]))
        near = cpu_pod("near", "1")
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        near["spec"]["affinity"] = {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
        await client.create(PODS, near, "default")
        await settle(30)
        assert (await nodes_of(client))["near"] == ""
        await client.patch(PODS, "web", {"metadata": {"labels": {"app": "web"}}}, "default")
        await eventually(all_placed(client, ["near"]))
        nodes = await nodes_of(client)
        assert nodes["near"] == nodes["web"]
        away = cpu_pod("away", "1")
        away["spec"]["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
        await client.create(PODS, away, "default")
        await eventually(all_placed(client, ["away"]))
        assert (await nodes_of(client))["away"] != nodes["web"]


async def test_devices_that_somebody_else_gave_count_instead_of_those_that_were_booked() -> None:
    async with scheduling(fleet(1, gpus=2)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, pod("first", 1), "default")
        await eventually(all_placed(client, ["first"]))
        name = "gpu.kilonova.dev/devices"
        first = (await client.get(PODS, "first", "default"))["metadata"]["annotations"][name]
        other = "1" if first == "0" else "0"
        await client.patch(PODS, "first", {"metadata": {"annotations": {name: other}}}, "default")
        await client.create(PODS, pod("second", 1), "default")
        await eventually(all_placed(client, ["second"]))
        second = await client.get(PODS, "second", "default")
        assert second["metadata"]["annotations"][name] == first
