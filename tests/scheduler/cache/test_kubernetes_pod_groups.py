"""Kubernetes PodGroups on a genuine API server with their feature gates."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.scheduler.library.decisions import replay_snapshot
from kilonova.scheduler.library.placement_report import report_placement
from kilonova.scheduler.library.snapshots.capture import capture_snapshot
from tests.harness.access import ServerAccess
from tests.harness.control_plane import ControlPlane
from tests.local.embedded_cluster import NODES, PODS, wait_for_condition
from tests.scheduler.binding.test_claim_allocations_on_servers import stage
from tests.scheduler.harness.embedded_scheduler import (
    are_all_placed,
    create_priority_class,
    nodes_by_pod,
    pod,
)
from tests.scheduler.harness.pod_groups import (
    KUBERNETES_POD_GROUPS,
    count_placed,
    kubernetes_pod_group,
)
from tests.scheduler.process.scheduler_process_cluster import CAPACITY

RACK = "example.com/rack"
_GATES = (
    "GenericWorkload",
    "GangScheduling",
    "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption",
)


@pytest.fixture(scope="module")
def access(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerAccess]:
    """A server that serves PodGroups."""
    gates = ",".join(f"{gate}=true" for gate in _GATES)
    folder = tmp_path_factory.mktemp("podgroups")
    with ControlPlane.start(folder, gates=gates, apis="scheduling.k8s.io/v1alpha2=true") as plane:
        yield plane.access


@asynccontextmanager
async def scheduler_test_cluster(access: ServerAccess, *nodes: str) -> AsyncGenerator[Client]:
    """Nodes of 8 GPUs and a scheduler for one test; its pods are deleted afterwards."""
    async with stage(access, *nodes) as client:
        for name in nodes:
            status = {"status": {"capacity": CAPACITY, "allocatable": CAPACITY}}
            await client.patch(NODES, name, status, subresource="status")
        try:
            yield client
        finally:
            for name in await nodes_by_pod(client):
                await client.delete(PODS, name, "default", grace_period_seconds=0)


async def create_members(
    client: Client, group: str, count: int, gpus: int, **spec: Any
) -> list[str]:
    names = [f"{group}-{index}" for index in range(count)]
    for name in names:
        body = pod(name, gpus, schedulingGroup={"podGroupName": group}, **spec)
        await client.create(PODS, body, "default")
    return names


async def scheduled_condition(client: Client, group: str) -> tuple[str, str]:
    """Status and reason of a group's `PodGroupScheduled` condition."""
    found = await client.get(KUBERNETES_POD_GROUPS, group, "default")
    for each in found.get("status", {}).get("conditions", []):
        if each["type"] == "PodGroupScheduled":
            return each["status"], each["reason"]
    return "", ""


async def test_group_starts_together_or_not_at_all_and_reports_it(access: ServerAccess) -> None:
    async with scheduler_test_cluster(access, "a0") as client:
        await client.create(PODS, pod("before", 2), "default")
        await wait_for_condition(are_all_placed(client, ["before"]))
        await client.create(
            KUBERNETES_POD_GROUPS,
            kubernetes_pod_group("train", {"gang": {"minCount": 2}}),
            "default",
        )
        names = await create_members(client, "train", 2, gpus=4)

        async def is_pending() -> bool:
            return await scheduled_condition(client, "train") == ("False", "Unschedulable")

        await wait_for_condition(is_pending)
        nodes = await nodes_by_pod(client)
        assert count_placed(nodes[name] for name in names) == 0
        cluster_snapshot = (await capture_snapshot(client)).cluster_snapshot
        why = report_placement(cluster_snapshot, "default", names[0])
        assert why is not None
        assert why.gang == "podgroup.scheduling.k8s.io/default/train"
        assert why.explanation is not None
        assert "nvidia.com/gpu" in why.explanation.message
        (rejected,) = replay_snapshot(cluster_snapshot).rejected
        assert rejected.gang == why.gang
        await client.delete(PODS, "before", "default", grace_period_seconds=0)
        await wait_for_condition(are_all_placed(client, names))

        async def scheduled() -> bool:
            return await scheduled_condition(client, "train") == ("True", "Scheduled")

        await wait_for_condition(scheduled)


async def test_topology_of_a_group_is_met(access: ServerAccess) -> None:
    async with scheduler_test_cluster(access, "b0", "b1", "b2") as client:
        for node, rack in (("b0", "r0"), ("b1", "r1"), ("b2", "r1")):
            await client.patch(NODES, node, {"metadata": {"labels": {RACK: rack}}})
        constraints = {"topology": [{"key": RACK}]}
        group = kubernetes_pod_group(
            "near", {"gang": {"minCount": 2}}, schedulingConstraints=constraints
        )
        await client.create(KUBERNETES_POD_GROUPS, group, "default")
        names = await create_members(client, "near", 2, gpus=6)
        await wait_for_condition(are_all_placed(client, names))
        nodes = await nodes_by_pod(client)
        assert {nodes[name] for name in names} == {"b1", "b2"}


async def test_pods_of_a_basic_group_are_scheduled_one_by_one(access: ServerAccess) -> None:
    async with scheduler_test_cluster(access, "c0") as client:
        await client.create(
            KUBERNETES_POD_GROUPS, kubernetes_pod_group("loose", {"basic": {}}), "default"
        )
        await create_members(client, "loose", 3, gpus=4)

        async def two_placed() -> bool:
            return count_placed((await nodes_by_pod(client)).values()) == 2

        await wait_for_condition(two_placed)


async def test_priority_of_a_group_overrides_that_of_its_pods(
    access: ServerAccess,
) -> None:
    async with scheduler_test_cluster(access, "d0") as client:
        await create_priority_class(client, "high", 1000)
        await client.create(PODS, pod("before", 8, terminationGracePeriodSeconds=0), "default")
        await wait_for_condition(are_all_placed(client, ["before"]))
        group = kubernetes_pod_group("urgent", {"gang": {"minCount": 1}}, priorityClassName="high")
        await client.create(KUBERNETES_POD_GROUPS, group, "default")
        names = await create_members(client, "urgent", 1, gpus=8)
        await wait_for_condition(are_all_placed(client, names))
        assert list(await nodes_by_pod(client)) == names


async def test_pod_waits_until_its_group_exists(access: ServerAccess) -> None:
    async with scheduler_test_cluster(access, "e0") as client:
        names = await create_members(client, "late", 1, gpus=1)

        async def is_reported() -> bool:
            found = await client.get(PODS, names[0], "default")
            conditions = found.get("status", {}).get("conditions", [])
            return any("not found" in each.get("message", "") for each in conditions)

        await wait_for_condition(is_reported)
        await client.create(
            KUBERNETES_POD_GROUPS,
            kubernetes_pod_group("late", {"gang": {"minCount": 1}}),
            "default",
        )
        await wait_for_condition(are_all_placed(client, names))


async def test_missed_scheduled_condition_is_written_later(access: ServerAccess) -> None:
    async with scheduler_test_cluster(access, "f0") as client:
        await client.create(
            KUBERNETES_POD_GROUPS,
            kubernetes_pod_group("done", {"gang": {"minCount": 2}}),
            "default",
        )
        names = await create_members(client, "done", 2, gpus=1)
        await wait_for_condition(are_all_placed(client, names))

        async def scheduled() -> bool:
            return await scheduled_condition(client, "done") == ("True", "Scheduled")

        await wait_for_condition(scheduled)
        forgotten = {"status": {"conditions": None}}
        await client.patch(
            KUBERNETES_POD_GROUPS, "done", forgotten, "default", subresource="status"
        )
        await wait_for_condition(scheduled)
