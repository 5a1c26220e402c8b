"""Instances on an embedded cluster, in virtual time: from creation to deletion."""

from typing import Any

from tests.instances.instance_cluster import (
    GANGS,
    INSTANCES,
    NAMESPACE,
    NODES,
    PODS,
    SERVICES,
    accelerator_nodes,
    condition_of,
    instance_cluster,
)
from tests.local.embedded_cluster import advance_time, virtual_time, wait_for_condition

pytestmark = virtual_time


async def test_instance_becomes_ready_in_the_tightest_domain() -> None:
    async with instance_cluster() as cluster:
        await cluster.create()
        status = await cluster.wait_for_phase("Ready")
        assert (status["targetAgents"], status["readyAgents"], status["pendingAgents"]) == (4, 4, 0)
        assert status["conductorReady"] is True
        assert status["domain"].startswith("zone-a/")
        assert len(status["domain"].split("/")) == 3
        nodes = {each["node"] for each in status["allocation"]}
        assert len(nodes) == 2
        assert {each["domain"] for each in status["allocation"]} == {status["domain"]}
        conditions = {each["type"]: each["status"] for each in status["conditions"]}
        assert conditions == {
            "Allocated": "True",
            "AgentsReady": "True",
            "ConductorReady": "True",
            "Ready": "True",
            "Degraded": "False",
        }
        message = f"4 agents on 2 nodes in {status['domain']}"
        assert condition_of(status, "Allocated")["message"] == message
        assert await cluster.list_names(PODS) == [
            "llama-agent-0",
            "llama-agent-1",
            "llama-agent-2",
            "llama-agent-3",
            "llama-conductor",
        ]
        assert await cluster.list_names(GANGS) == ["iei-llama"]
        assert "iei-llama" in await cluster.list_names(SERVICES)
        assert await cluster.list_events() == []


async def test_deleted_instance_leaves_nothing() -> None:
    async with instance_cluster() as cluster:
        await cluster.create()
        await cluster.wait_for_phase("Ready")
        await cluster.client.delete(INSTANCES, "llama", NAMESPACE)

        async def is_gone() -> bool:
            objects = [await cluster.list_names(each) for each in (PODS, GANGS)]
            return objects == [[], []] and "iei-llama" not in await cluster.list_names(SERVICES)

        await wait_for_condition(is_gone, within=120)


async def test_settled_instance_is_written_no_more() -> None:
    async with instance_cluster() as cluster:
        await cluster.create()
        await cluster.wait_for_phase("Ready")
        await advance_time(20)

        async def versions() -> list[Any]:
            return [
                each["metadata"]["resourceVersion"]
                for resource in (INSTANCES, PODS, GANGS, SERVICES)
                for each in await cluster.list_objects(resource)
            ]

        before = await versions()
        await advance_time(120)
        assert await versions() == before


async def test_two_instances_never_share_an_accelerator() -> None:
    async with instance_cluster(accelerator_nodes(2, racks=1)) as cluster:
        await cluster.create("one")
        await cluster.create("two")
        await cluster.wait_for_phase("Ready", "one")
        status = await cluster.wait_for(
            lambda each: condition_of(each, "Allocated").get("reason") == "InsufficientCapacity",
            "two",
        )
        assert (status["phase"], status["pendingAgents"]) == ("Allocating", 4)
        await cluster.client.delete(INSTANCES, "one", NAMESPACE)
        await cluster.wait_for_phase("Ready", "two")


async def test_any_resource_of_nodes_is_an_accelerator() -> None:
    async with instance_cluster(accelerator_nodes(3, racks=1)) as cluster:
        for node in await cluster.list_names(NODES):
            amounts = {"groq.com/lpu": "8"}
            status = {"status": {"capacity": amounts, "allocatable": amounts}}
            await cluster.client.patch(NODES, node, status, subresource="status")
        accelerator = {"resource": "groq.com/lpu", "count": 8}
        await cluster.create(agents=2, accelerator=accelerator)
        status = await cluster.wait_for_phase("Ready")
        assert len({each["node"] for each in status["allocation"]}) == 2
        await cluster.create("other", agents=2, accelerator=accelerator)
        status = await cluster.wait_for(
            lambda each: condition_of(each, "Allocated").get("reason") == "InsufficientCapacity",
            "other",
        )
        assert "Insufficient groq.com/lpu" in condition_of(status, "Allocated")["message"]
