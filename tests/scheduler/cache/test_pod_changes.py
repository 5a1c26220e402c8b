"""Changes of bound pods: resized in place, relabelled, assigned other devices."""

from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.kube.client.client import PatchType
from kilonova.scheduler.settings import SchedulerSettings
from tests.local.embedded_cluster import PODS, advance_time, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import (
    are_all_placed,
    fleet,
    nodes_by_pod,
    pod,
    scheduled_cluster,
)

pytestmark = virtual_time


def cpu_pod(name: str, cpu: str, **labels: str) -> dict[str, Any]:
    """A pod that requests only CPU."""
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
        patch_type=PatchType.STRATEGIC,
        subresource="resize",
    )


async def report(client: Client, name: str, cpu: str, *conditions: dict[str, Any]) -> None:
    """A container status as a kubelet reports it."""

    async def is_running() -> bool:
        found = await client.get(PODS, name, "default")
        return bool(found["status"].get("containerStatuses"))

    await wait_for_condition(is_running)
    found = await client.get(PODS, name, "default")
    statuses = [
        {**each, "resources": {"requests": {"cpu": cpu}}, "allocatedResources": {"cpu": cpu}}
        for each in found["status"]["containerStatuses"]
    ]
    others = [c for c in found["status"]["conditions"] if c["type"] != "PodResizePending"]
    status = {"containerStatuses": statuses, "conditions": [*others, *conditions]}
    await client.patch(PODS, name, {"status": status}, "default", subresource="status")


PENDING = {"type": "PodResizePending", "status": "True", "lastTransitionTime": None}


async def test_resized_pod_counts_with_its_new_requests() -> None:
    """A node has 64 CPUs."""
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, cpu_pod("first", "10"), "default")
        await wait_for_condition(are_all_placed(client, ["first"]))
        await resize(client, "first", "40")
        await client.create(PODS, cpu_pod("large", "40"), "default")
        await client.create(PODS, cpu_pod("small", "20"), "default")
        await wait_for_condition(are_all_placed(client, ["small"]))
        await advance_time(30)
        assert (await nodes_by_pod(client))["large"] == ""
        await resize(client, "first", "1")
        await report(client, "first", "1")
        await wait_for_condition(are_all_placed(client, ["large"]))


@pytest.mark.parametrize(
    ("reason", "fits"), [("Deferred", False), ("Infeasible", True)], ids=["deferred", "infeasible"]
)
async def test_pending_resize_counts_and_infeasible_resize_does_not(
    reason: str, fits: bool
) -> None:
    async with scheduled_cluster(fleet(1), SchedulerSettings(retry_interval=5)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, cpu_pod("first", "10"), "default")
        await wait_for_condition(are_all_placed(client, ["first"]))
        await resize(client, "first", "60")
        await report(client, "first", "10", {**PENDING, "reason": reason})
        await client.create(PODS, cpu_pod("second", "40"), "default")
        await advance_time(30)
        assert bool((await nodes_by_pod(client))["second"]) is fits


async def test_resources_still_allocated_by_the_kubelet_count() -> None:
    async with scheduled_cluster(fleet(1)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, cpu_pod("first", "60"), "default")
        await wait_for_condition(are_all_placed(client, ["first"]))
        await report(client, "first", "60")
        await resize(client, "first", "10")
        await client.create(PODS, cpu_pod("second", "40"), "default")
        await advance_time(30)
        assert (await nodes_by_pod(client))["second"] == ""
        await report(client, "first", "10")
        await wait_for_condition(are_all_placed(client, ["second"]))


async def test_relabelled_pod_counts_for_affinity_with_its_new_labels() -> None:
    async with scheduled_cluster(fleet(2)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, cpu_pod("web", "1", app="other"), "default")
        await wait_for_condition(are_all_placed(client, ["web"]))
        near = cpu_pod("near", "1")
        term = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
        near["spec"]["affinity"] = {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
        await client.create(PODS, near, "default")
        await advance_time(30)
        assert (await nodes_by_pod(client))["near"] == ""
        await client.patch(PODS, "web", {"metadata": {"labels": {"app": "web"}}}, "default")
        await wait_for_condition(are_all_placed(client, ["near"]))
        nodes = await nodes_by_pod(client)
        assert nodes["near"] == nodes["web"]
        away = cpu_pod("away", "1")
        away["spec"]["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
        await client.create(PODS, away, "default")
        await wait_for_condition(are_all_placed(client, ["away"]))
        assert (await nodes_by_pod(client))["away"] != nodes["web"]


async def test_devices_assigned_by_others_replace_the_assumed_ones() -> None:
    async with scheduled_cluster(fleet(1, gpus=2)) as (cluster, _):
        client = cluster.client("tester")
        await client.create(PODS, pod("first", 1), "default")
        await wait_for_condition(are_all_placed(client, ["first"]))
        name = "gpu.kilonova.dev/devices"
        first = (await client.get(PODS, "first", "default"))["metadata"]["annotations"][name]
        other = "1" if first == "0" else "0"
        await client.patch(PODS, "first", {"metadata": {"annotations": {name: other}}}, "default")
        await client.create(PODS, pod("second", 1), "default")
        await wait_for_condition(are_all_placed(client, ["second"]))
        second = await client.get(PODS, "second", "default")
        assert second["metadata"]["annotations"][name] == first
