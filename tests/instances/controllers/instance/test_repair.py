"""Failures of pods and nodes on an embedded cluster, in virtual time."""

from typing import Any

import pytest

from tests.instances.instance_cluster import (
    EVENTS,
    GANGS,
    NAMESPACE,
    NODES,
    PODS,
    RESERVATIONS,
    SERVICES,
    InstanceCluster,
    accelerator_nodes,
    condition_of,
    instance_cluster,
)
from tests.local.embedded_cluster import advance_time, virtual_time, wait_for_condition

pytestmark = virtual_time

OUT = "sim.kilonova.dev/out"
LOST_GPUS = "sim.kilonova.dev/lost-gpus"


def identities(agents: dict[int, Any]) -> dict[int, tuple[str, str]]:
    """The uid and node of each agent."""
    return {
        index: (pod["metadata"]["uid"], pod["spec"].get("nodeName", ""))
        for index, pod in agents.items()
    }


async def start(cluster: InstanceCluster, **fields: Any) -> dict[int, tuple[str, str]]:
    """A ready instance, and its agents."""
    await cluster.create(**fields)
    await cluster.wait_for_phase("Ready")
    return identities(await cluster.list_agents())


def on_node(agents: dict[int, tuple[str, str]], node: str) -> set[int]:
    return {index for index, (_, each) in agents.items() if each == node}


def get_nodes(agents: dict[int, tuple[str, str]]) -> set[str]:
    return {node for _, node in agents.values()}


async def wait_repaired(cluster: InstanceCluster, recreated: int, within: float = 120) -> Any:
    return await cluster.wait_for(
        lambda each: (
            each["phase"] == "Ready"
            and each["readyAgents"] == each["targetAgents"]
            and each.get("repairs", {}).get("recreated") == recreated
        ),
        within=within,
    )


async def fail_pod(cluster: InstanceCluster, name: str) -> None:
    status = {"phase": "Failed", "reason": "Evicted"}
    await cluster.client.patch(PODS, name, {"status": status}, NAMESPACE, subresource="status")


@pytest.mark.parametrize("how", ["deleted", "evicted", "failed"])
async def test_lost_pods_are_recreated_beside_the_others(how: str) -> None:
    async with instance_cluster(accelerator_nodes(6)) as cluster:
        before = await start(cluster)
        await advance_time(20)
        for index in (1, 3):
            name = f"llama-agent-{index}"
            if how == "deleted":
                await cluster.client.delete(PODS, name, NAMESPACE)
            elif how == "evicted":
                await cluster.client.evict(name, NAMESPACE)
            else:
                await fail_pod(cluster, name)
        status = await wait_repaired(cluster, 2)
        after = identities(await cluster.list_agents())
        assert {index for index in before if before[index] == after[index]} == {0, 2}
        assert status["repairs"]["lastReason"]
        reasons = {reason for reason, _ in await cluster.list_events()}
        assert reasons == {"AgentPodsRecreated"}
        messages = [message for _, message in await cluster.list_events()]
        assert sum(int(each.split()[1]) for each in messages) == 2
        assert all("agent-1-r" in each or "agent-3-r" in each for each in await new_names(cluster))


async def new_names(cluster: InstanceCluster) -> list[str]:
    return [each for each in await cluster.list_names(PODS) if "-r" in each]


async def test_lost_conductor_is_recreated_alone() -> None:
    async with instance_cluster() as cluster:
        before = await start(cluster)
        await cluster.client.delete(PODS, "llama-conductor", NAMESPACE)
        await cluster.wait_for(lambda each: not each["conductorReady"])
        status = await cluster.wait_for_phase("Ready")
        assert identities(await cluster.list_agents()) == before
        assert status.get("repairs", {}).get("recreated", 0) == 0
        assert "llama-conductor-r1" in await cluster.list_names(PODS)


@pytest.mark.parametrize("how", ["out", "deleted"])
async def test_node_is_replaced_by_a_spare_one_of_the_same_domain(how: str) -> None:
    async with instance_cluster(accelerator_nodes(6)) as cluster:
        before = await start(cluster)
        domain = (await cluster.get_status())["domain"]
        node = sorted(get_nodes(before))[0]
        lost = on_node(before, node)
        if how == "out":
            await cluster.annotate_node(node, {OUT: "true"})
        else:
            await cluster.annotate_node(node, {OUT: "true"})
            await cluster.client.delete(NODES, node)
        status = await wait_repaired(cluster, 2)
        after = identities(await cluster.list_agents())
        assert {index for index in before if before[index] != after[index]} == lost
        assert node not in get_nodes(after)
        assert status["domain"] == domain
        assert f"node {node}" in status["repairs"]["lastReason"]
        assert [reason for reason, _ in await cluster.list_events()] == ["AgentPodsRecreated"]


async def test_agents_leave_unhealthy_accelerators() -> None:
    async with instance_cluster(accelerator_nodes(6)) as cluster:
        before = await start(cluster)
        node = before[0][1]
        devices = (await cluster.list_agents())[0]["metadata"]["annotations"][
            "gpu.kilonova.dev/devices"
        ]
        await cluster.annotate_node(node, {LOST_GPUS: devices.split(",")[0]})
        status = await wait_repaired(cluster, 1)
        after = identities(await cluster.list_agents())
        assert {index for index in before if before[index] != after[index]} == {0}
        assert after[0][1] != node
        assert "is unhealthy" in status["repairs"]["lastReason"]


async def test_cordoned_node_is_left_when_replacements_have_a_node() -> None:
    async with instance_cluster(accelerator_nodes(6)) as cluster:
        before = await start(cluster)
        node = sorted(get_nodes(before))[0]
        moving = on_node(before, node)
        await cluster.cordon(node)
        await wait_repaired(cluster, 2)
        after = identities(await cluster.list_agents())
        assert {index for index in before if before[index] != after[index]} == moving
        assert node not in get_nodes(after)


async def test_cordoned_node_is_kept_while_there_is_no_other_one() -> None:
    async with instance_cluster(accelerator_nodes(2, racks=1)) as cluster:
        before = await start(cluster, repair={"deadline": "30s"})
        await cluster.cordon("node-0")
        await advance_time(300)
        assert (await cluster.get_status())["readyAgents"] == 4
        agents = identities(await cluster.list_agents())
        assert get_nodes(agents) >= get_nodes(before)
        await cluster.cordon("node-0", cordoned=False)

        async def is_as_before() -> bool:
            return identities(await cluster.list_agents()) == before

        await wait_for_condition(is_as_before)
        status = await cluster.wait_for_phase("Ready")
        assert status.get("repairs", {}).get("recreated", 0) == 0

        async def nothing_is_reserved() -> bool:
            return await cluster.list_names(RESERVATIONS) == []

        await wait_for_condition(nothing_is_reserved)


async def test_instance_is_relocated_where_its_domain_has_no_spare_node() -> None:
    async with instance_cluster(accelerator_nodes(4)) as cluster:
        before = await start(cluster, repair={"deadline": "30s"})
        origin = (await cluster.get_status())["domain"]
        node = sorted(get_nodes(before))[0]
        await cluster.annotate_node(node, {OUT: "true"})
        status = await cluster.wait_for(
            lambda each: each["phase"] == "Ready" and each["domain"] != origin, within=300
        )
        assert status["repairs"]["relocated"] == 1
        after = identities(await cluster.list_agents())
        assert not get_nodes(before) & get_nodes(after)
        events = await cluster.list_events()
        message = f"Relocated from {origin} to {status['domain']}"
        assert ("InstanceRelocated", message) in events
        assert "AllocationFailed" not in [reason for reason, _ in events]
        counts = {each["reason"]: each["count"] for each in await cluster.list_objects(EVENTS)}
        assert counts["InstanceRelocated"] == 1

        async def is_clean() -> bool:
            return (
                await cluster.list_names(GANGS) == ["iei1-llama"]
                and await cluster.list_names(RESERVATIONS) == []
            )

        await wait_for_condition(is_clean)


async def test_instance_that_serves_is_relocated_without_a_gap() -> None:
    async with instance_cluster(accelerator_nodes(4)) as cluster:
        before = await start(cluster, repair={"deadline": "30s"})
        origin = (await cluster.get_status())["domain"]
        node = sorted(get_nodes(before))[0]
        async with cluster.observed_phases() as phases:
            await cluster.cordon(node)
            status = await cluster.wait_for(
                lambda each: each["phase"] == "Ready" and each["domain"] != origin, within=120
            )
        assert status["repairs"]["relocated"] == 1
        # The former agents serve until the next ones do.
        assert "Relocating" in {phase for phase, _ in phases}
        assert {ready for _, ready in phases} == {4}
        assert {"iei-llama", "iei1-llama"} <= set(await cluster.list_names(SERVICES))
        assert await cluster.list_names(GANGS) == ["iei1-llama"]


async def test_instance_without_any_place_is_given_up_and_recovers() -> None:
    async with instance_cluster(accelerator_nodes(2, racks=1)) as cluster:
        await start(cluster, repair={"deadline": "30s"})
        await cluster.annotate_node("node-0", {OUT: "true"})
        status = await cluster.wait_for_phase("Failed", within=300)
        allocated = condition_of(status, "Allocated")
        assert (allocated["status"], allocated["reason"]) == ("False", "InsufficientCapacity")
        (failed,) = [each for each in await cluster.list_events() if each[0] == "AllocationFailed"]
        assert failed[1].startswith("Could not allocate resources: ")
        await cluster.annotate_node("node-0", {OUT: None})
        status = await cluster.wait_for_phase("Ready", within=300)
        assert status["readyAgents"] == 4


async def test_new_instance_without_a_place_is_given_up_and_recovers() -> None:
    async with instance_cluster(accelerator_nodes(1, racks=1)) as cluster:
        await cluster.create(repair={"deadline": "30s"})
        await cluster.wait_for_phase("Failed", within=120)
        assert [reason for reason, _ in await cluster.list_events()] == ["AllocationFailed"]
        node = await cluster.client.get(NODES, "node-0")
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
