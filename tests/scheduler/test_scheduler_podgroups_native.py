"""PodGroups of Kubernetes, on a genuine server that has them switched on."""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.kube import Client
from kilonova.scheduler.answering import answer
from kilonova.scheduler.capturing import capture
from kilonova.scheduler.decisions import replay
from tests.harness.access import Access
from tests.harness.controlplane import HOW_TO_GET, ControlPlane, binaries
from tests.local.embedded_cluster import NODES, PODS, eventually
from tests.scheduler.podgroups import NATIVE, native, placed_among
from tests.scheduler.process.scheduler_ground import CAPACITY
from tests.scheduler.scheduling import all_placed, make_priority, nodes_of, pod
from tests.scheduler.test_claims_on_servers import stage

RACK = "example.com/rack"
_GATES = (
    "GenericWorkload",
    "GangScheduling",
    "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption",
)


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """A server that knows PodGroups."""
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
    gates = ",".join(f"{gate}=true" for gate in _GATES)
    folder = tmp_path_factory.mktemp("podgroups")
    with ControlPlane.start(folder, gates=gates, apis="scheduling.k8s.io/v1alpha2=true") as plane:
        yield plane.access


@asynccontextmanager
async def ground(access: Access, *nodes: str) -> AsyncGenerator[Client]:
    """Nodes of 8 GPUs and a scheduler, for one test; its pods go with it."""
    async with stage(access, *nodes) as client:
        for name in nodes:
            status = {"status": {"capacity": CAPACITY, "allocatable": CAPACITY}}
            await client.patch(NODES, name, status, subresource="status")
        try:
            yield client
        finally:
            for name in await nodes_of(client):
                await client.delete(PODS, name, "default", grace=0)


async def create_members(
    client: Client, group: str, count: int, gpus: int, **spec: Any
) -> list[str]:
    names = [f"{group}-{index}" for index in range(count)]
    for name in names:
        body = pod(name, gpus, schedulingGroup={"podGroupName": group}, **spec)
        await client.create(PODS, body, "default")
    return names


async def told(client: Client, group: str) -> tuple[str, str]:
    """What a group says of its place: status and reason."""
    found = await client.get(NATIVE, group, "default")
    for each in found.get("status", {}).get("conditions", []):
        if each["type"] == "PodGroupScheduled":
            return each["status"], each["reason"]
    return "", ""


async def test_a_gang_starts_together_or_not_at_all_and_its_group_says_so(access: Access) -> None:
    async with ground(access, "a0") as client:
        await client.create(PODS, pod("before", 2), "default")
        await eventually(all_placed(client, ["before"]))
        await client.create(NATIVE, native("train", {"gang": {"minCount": 2}}), "default")
        names = await create_members(client, "train", 2, gpus=4)

        async def waits() -> bool:
            return await told(client, "train") == ("False", "Unschedulable")

        await eventually(waits)
        nodes = await nodes_of(client)
        assert placed_among(nodes[name] for name in names) == 0
        picture = (await capture(client)).picture
        why = answer(picture, "default", names[0])
        assert why is not None
        assert why.gang == "podgroup.scheduling.k8s.io/default/train"
        assert why.explanation is not None
        assert "nvidia.com/gpu" in why.explanation.message
        (refused,) = replay(picture).refused
        assert refused.gang == why.gang
        await client.delete(PODS, "before", "default", grace=0)
        await eventually(all_placed(client, names))

        async def scheduled() -> bool:
            return await told(client, "train") == ("True", "Scheduled")

        await eventually(scheduled)


async def test_a_topology_of_a_group_holds(access: Access) -> None:
    async with ground(access, "b0", "b1", "b2") as client:
        for node, rack in (("b0", "r0"), ("b1", "r1"), ("b2", "r1")):
            await client.patch(NODES, node, {"metadata": {"labels": {RACK: rack}}})
        constraints = {"topology": [{"key": RACK}]}
        group = native("near", {"gang": {"minCount": 2}}, schedulingConstraints=constraints)
        await client.create(NATIVE, group, "default")
        names = await create_members(client, "near", 2, gpus=6)
        await eventually(all_placed(client, names))
        nodes = await nodes_of(client)
        assert {nodes[name] for name in names} == {"b1", "b2"}


async def test_pods_of_a_basic_group_are_placed_each_on_its_own(access: Access) -> None:
    async with ground(access, "c0") as client:
        await client.create(NATIVE, native("loose", {"basic": {}}), "default")
        await create_members(client, "loose", 3, gpus=4)

        async def two_placed() -> bool:
            return placed_among((await nodes_of(client)).values()) == 2

        await eventually(two_placed)


async def test_the_priority_of_a_group_counts_instead_of_that_of_its_pods(access: Access) -> None:
    async with ground(access, "d0") as client:
        await make_priority(client, "high", 1000)
        await client.create(PODS, pod("before", 8, terminationGracePeriodSeconds=0), "default")
        await eventually(all_placed(client, ["before"]))
        group = native("urgent", {"gang": {"minCount": 1}}, priorityClassName="high")
        await client.create(NATIVE, group, "default")
        names = await create_members(client, "urgent", 1, gpus=8)
        await eventually(all_placed(client, names))
        assert list(await nodes_of(client)) == names


async def test_a_pod_waits_until_its_group_is_there(access: Access) -> None:
    async with ground(access, "e0") as client:
        names = await create_members(client, "late", 1, gpus=1)

        async def says() -> bool:
            found = await client.get(PODS, names[0], "default")
            conditions = found.get("status", {}).get("conditions", [])
            return any("is not there" in each.get("message", "") for each in conditions)

        await eventually(says)
        await client.create(NATIVE, native("late", {"gang": {"minCount": 1}}), "default")
        await eventually(all_placed(client, names))


async def test_a_group_is_told_what_nobody_came_to_say_when_it_was_placed(access: Access) -> None:
    async with ground(access, "f0") as client:
        await client.create(NATIVE, native("done", {"gang": {"minCount": 2}}), "default")
        names = await create_members(client, "done", 2, gpus=1)
        await eventually(all_placed(client, names))

        async def scheduled() -> bool:
            return await told(client, "done") == ("True", "Scheduled")

        await eventually(scheduled)
        forgotten = {"status": {"conditions": None}}
        await client.patch(NATIVE, "done", forgotten, "default", subresource="status")
        await eventually(scheduled)
