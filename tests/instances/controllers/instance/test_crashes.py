"""Controllers that crash between any two writes, and others that continue."""

import asyncio

import pytest

from kilonova.instances.assembly import build_instance_controllers
from kilonova.kube import Client
from tests.harness.campaigns import select_cases
from tests.instances.controllers.instance.test_repair import OUT, get_nodes, identities, on_node
from tests.instances.instance_cluster import (
    GANGS,
    INSTANCES,
    NAMESPACE,
    PODS,
    RESERVATIONS,
    SERVICES,
    InstanceCluster,
    accelerator_nodes,
    instance_cluster,
    running_controllers,
)
from tests.local.embedded_cluster import LoopClock, advance_time, virtual_time, wait_for_condition
from tests.workloads.crashing_operator import BuiltControllers, crashing_controllers

pytestmark = virtual_time

WRITES_OF_A_START = 18
"""Service, gang, five pods, five gates, statuses of gang and instance."""
WRITES_OF_A_REPAIR = 12
"""Gang, two deletions, two pods, two gates, statuses."""
WRITES_OF_A_RELOCATION = 30
"""Those of a repair, a reservation, and those of a start; deletions of all that was before."""


def build(client: Client, clock: LoopClock) -> BuiltControllers:
    return build_instance_controllers(client, now=clock.now, monotonic=clock.monotonic)


async def crash_once(
    cluster: InstanceCluster, writes: int, *, last_write_arrives: bool, within: float = 60
) -> bool:
    """Run controllers until they crash; whether they did."""
    async with crashing_controllers(
        cluster.cluster, "instances", build, writes, last_write_arrives=last_write_arrives
    ) as crashed:
        try:
            async with asyncio.timeout(within):
                await crashed.wait()
        except TimeoutError:
            return False
    return True


def cases(count: int, number: int) -> list[int]:
    return select_cases(list(range(1, count + 1)), number)


@pytest.mark.campaign
@pytest.mark.parametrize("arrives", [True, False], ids=["applied", "lost"])
@pytest.mark.parametrize("writes", cases(WRITES_OF_A_START, 4))
async def test_start_goes_on_after_a_crash(writes: int, arrives: bool) -> None:
    async with instance_cluster(accelerator_nodes(2, racks=1), controllers=False) as cluster:
        await cluster.create()
        await crash_once(cluster, writes, last_write_arrives=arrives)
        async with running_controllers(cluster.cluster):
            status = await cluster.wait_for_phase("Ready", within=120)
        assert status.get("repairs", {}).get("recreated", 0) == 0
        assert len(await cluster.list_names(PODS)) == 5
        assert await cluster.list_names(GANGS) == ["iei-llama"]


@pytest.mark.campaign
@pytest.mark.parametrize("arrives", [True, False], ids=["applied", "lost"])
@pytest.mark.parametrize("writes", cases(WRITES_OF_A_REPAIR, 4))
async def test_repair_goes_on_after_a_crash_and_counts_once(writes: int, arrives: bool) -> None:
    async with instance_cluster(accelerator_nodes(3, racks=1), controllers=False) as cluster:
        async with running_controllers(cluster.cluster):
            await cluster.create()
            await cluster.wait_for_phase("Ready")
            await advance_time(5)
        before = identities(await cluster.list_agents())
        node = sorted(get_nodes(before))[0]
        await cluster.annotate_node(node, {OUT: "true"})
        await crash_once(cluster, writes, last_write_arrives=arrives)
        async with running_controllers(cluster.cluster):
            await cluster.wait_for(
                lambda each: (
                    each["phase"] == "Ready" and each.get("repairs", {}).get("recreated") == 2
                ),
                within=180,
            )
            await advance_time(30)
        after = identities(await cluster.list_agents())
        lost = on_node(before, node)
        assert {index for index in before if before[index] == after[index]} == set(before) - lost
        assert (await cluster.get_status())["repairs"]["recreated"] == 2


@pytest.mark.campaign
@pytest.mark.parametrize("arrives", [True, False], ids=["applied", "lost"])
@pytest.mark.parametrize("writes", cases(WRITES_OF_A_RELOCATION, 6))
async def test_relocation_goes_on_after_a_crash(writes: int, arrives: bool) -> None:
    async with instance_cluster(accelerator_nodes(4), controllers=False) as cluster:
        async with running_controllers(cluster.cluster):
            await cluster.create(repair={"deadline": "20s"})
            await cluster.wait_for_phase("Ready")
            await advance_time(5)
        before = identities(await cluster.list_agents())
        origin = (await cluster.get_status())["domain"]
        await cluster.annotate_node(sorted(get_nodes(before))[0], {OUT: "true"})
        await crash_once(cluster, writes, last_write_arrives=arrives, within=150)
        async with running_controllers(cluster.cluster):
            status = await cluster.wait_for(
                lambda each: each["phase"] == "Ready" and each["domain"] != origin, within=300
            )

            async def is_clean() -> bool:
                return (
                    await cluster.list_names(GANGS) == ["iei1-llama"]
                    and await cluster.list_names(RESERVATIONS) == []
                    and len(await cluster.list_agents()) == 4
                )

            await wait_for_condition(is_clean)
        assert status["repairs"]["relocated"] == 1
        assert not get_nodes(identities(await cluster.list_agents())) & get_nodes(before)


async def test_instance_that_was_deleted_while_no_controller_ran_leaves_nothing() -> None:
    async with instance_cluster(controllers=False) as cluster:
        await cluster.create()
        await crash_once(cluster, 5, last_write_arrives=True)
        await cluster.client.delete(INSTANCES, "llama", NAMESPACE)
        async with running_controllers(cluster.cluster):
            await advance_time(60)
        for each in (PODS, GANGS):
            assert await cluster.list_names(each) == []
        assert await cluster.list_names(SERVICES) == ["kubernetes"]
