"""An instance of 108 agents: only what is lost is created again."""

from tests.instances.controllers.instance.test_repair import OUT, get_nodes, identities, on_node
from tests.instances.instance_cluster import accelerator_nodes, instance_cluster
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time

AGENTS = 108


async def test_dead_node_costs_only_its_own_agents() -> None:
    async with instance_cluster(accelerator_nodes(32, racks=2)) as cluster:
        await cluster.create(agents=AGENTS, gpus=1)
        status = await cluster.wait_for_phase("Ready", within=120)
        assert (status["readyAgents"], len(status["allocation"])) == (AGENTS, AGENTS)
        before = identities(await cluster.list_agents())
        assert len(get_nodes(before)) == 14
        node = sorted(get_nodes(before))[3]
        lost = on_node(before, node)
        assert len(lost) == 8
        await cluster.annotate_node(node, {OUT: "true"})
        status = await cluster.wait_for(
            lambda each: each["phase"] == "Ready" and each.get("repairs", {}).get("recreated") == 8,
            within=180,
        )
        after = identities(await cluster.list_agents())
        assert {index for index in before if before[index] == after[index]} == set(before) - lost
        assert node not in get_nodes(after)
        assert len({each["domain"] for each in status["allocation"]}) == 1
        message = f"Recreated 8 agent pods: node {node} is not ready"
        assert ("AgentPodsRecreated", message) in await cluster.list_events()
