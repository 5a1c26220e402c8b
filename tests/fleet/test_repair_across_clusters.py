"""A fleet with the real controllers of instances in its members: the whole ladder of repairs."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry

from tests.fleet.store.stores import Bucket
from tests.fleet.support.fleet_lab import RELEASES, FleetLab, run_hub
from tests.instances.controllers.instance.test_repair import OUT, get_nodes, identities
from tests.instances.instance_cluster import (
    INSTANCES,
    NAMESPACE,
    PODS,
    InstanceCluster,
    accelerator_nodes,
    instance_cluster,
    running_controllers,
)
from tests.local.embedded_cluster import virtual_time, wait_for_condition

pytestmark = virtual_time

SPEC: dict[str, Any] = {
    "model": "llama32-90b",
    "image": "engine",
    "targetAgents": 2,
    "accelerator": {"count": 8},
    "repair": {"deadline": "30s"},
}
"""Each agent fills a node."""
RACK = 3
"""Nodes of each of the two racks of a cluster."""


@dataclass(frozen=True, slots=True)
class Site:
    """A member, and the metrics of its controllers."""

    cluster: InstanceCluster
    registry: CollectorRegistry

    async def list_ready(self) -> list[str]:
        """The names of the instances that are ready."""
        found = await self.cluster.list_objects(INSTANCES)
        ready = [each for each in found if each.get("status", {}).get("phase") == "Ready"]
        return [each["metadata"]["name"] for each in ready]

    async def let_die(self, *nodes: str) -> None:
        """Let nodes post no status any more."""
        for each in nodes:
            await self.cluster.annotate_node(each, {OUT: "true"})

    def read(self, name: str, **labels: str) -> float | None:
        """A metric of the controllers."""
        return self.registry.get_sample_value(f"kilonova_instance_{name}_total", labels)


@asynccontextmanager
async def run_fleet() -> AsyncGenerator[tuple[FleetLab, dict[str, Site]]]:
    """A hub with a manager, and two members with nodes, schedulers and controllers."""
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(run_hub())
        lab = FleetLab(Bucket(), hub, hub.client("system:admin"))
        sites: dict[str, Site] = {}
        for name in ("a", "b"):
            nodes = accelerator_nodes(2 * RACK, racks=2)
            cluster = await stack.enter_async_context(instance_cluster(nodes, controllers=False))
            registry = CollectorRegistry()
            parts = running_controllers(cluster.cluster, registry=registry)
            await stack.enter_async_context(parts)
            await lab.add_member(name, cluster.cluster, 0)
            sites[name] = Site(cluster, registry)
        lab.add_manager()
        try:
            yield lab, sites
        finally:
            for each in (*lab.managers.values(), *(each.agent for each in lab.members.values())):
                await each.kill()


async def find_ready(sites: dict[str, Site]) -> tuple[Site, Site, str]:
    """The member with the ready instance, the other one, and the name of the instance."""
    found: list[tuple[Site, Site, str]] = []

    async def is_found() -> bool:
        for site, other in ((sites["a"], sites["b"]), (sites["b"], sites["a"])):
            found.extend((site, other, name) for name in await site.list_ready())
        return bool(found)

    await wait_for_condition(is_found, within=300)
    return found[0]


def has_repairs(recreated: int, relocated: int = 0) -> Any:
    """Whether an instance is ready after so many repairs."""

    def holds(status: Any) -> bool:
        repairs = status.get("repairs", {})
        return (
            status.get("phase") == "Ready"
            and repairs.get("recreated", 0) == recreated
            and repairs.get("relocated", 0) == relocated
        )

    return holds


async def test_steps_of_the_ladder_follow_each_other_up_to_another_cluster() -> None:
    async with run_fleet() as (lab, sites):
        await lab.client.create(RELEASES, {"metadata": {"name": "v1"}, "spec": SPEC}, NAMESPACE)
        await lab.deploy(replicas=1)
        site, other, name = await find_ready(sites)
        cluster = site.cluster
        home = (await cluster.get_status(name))["domain"]
        before = identities(await cluster.list_agents(name))

        # In place: the pod is created again, and the others are not.
        pod = (await cluster.list_agents(name))[1]["metadata"]["name"]
        await cluster.client.delete(PODS, pod, NAMESPACE)
        status = await cluster.wait_for(has_repairs(1), name)
        after = identities(await cluster.list_agents(name))
        assert (after[0], status["domain"]) == (before[0], home)
        assert after[1] != before[1]

        # In the domain: the dead node is swapped for the spare one.
        dead = after[0][1]
        await site.let_die(dead)
        status = await cluster.wait_for(has_repairs(2), name, within=180)
        assert status["domain"] == home
        swapped = identities(await cluster.list_agents(name))
        assert swapped[1] == after[1]

        # In the cluster: its domain has no spare node left.
        await site.let_die(swapped[1][1])
        status = await cluster.wait_for(
            lambda each: has_repairs(each["repairs"]["recreated"], 1)(each), name, within=300
        )
        assert status["domain"] != home
        assert await other.list_ready() == []
        assert "InstanceRelocated" not in await lab.list_reasons()

        # In another cluster: this one has no place left.
        used = get_nodes(identities(await cluster.list_agents(name)))
        nodes = {f"node-{number}" for number in range(2 * RACK)}
        await site.let_die(*sorted(used), *sorted(nodes - used)[1:])

        async def is_elsewhere() -> bool:
            return len(await other.list_ready()) == 1

        await wait_for_condition(is_elsewhere, within=600)
        assert "InstanceRelocated" in await lab.list_reasons()
        reasons = [reason for reason, _ in await cluster.list_events(name)]
        for each in ("AgentPodsRecreated", "InstanceRelocated", "AllocationFailed"):
            assert each in reasons
        steps = [reasons.index("InstanceRelocated"), reasons.index("AllocationFailed")]
        assert steps == sorted(steps)
        assert site.read("allocations", result="failed") == 1
        assert site.read("relocations") == 1
