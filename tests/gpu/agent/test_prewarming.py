"""MIG instances that are made before a pod requests them, as learnt from earlier pods."""

from pathlib import Path

from kilonova.api.gpu.annotations import TOPOLOGY
from kilonova.api.gpu.mig_strategy import NodeMigStrategy
from kilonova.gpu.agent.context import AgentSettings
from kilonova.gpu.agent.learnt_demand import DEMAND_FILE
from kilonova.kube import Client
from tests.gpu.agent.agent_cluster import list_instances, read_topology
from tests.gpu.agent.local_agents import NODE, build_backend, create_pod, run_agent, run_node
from tests.gpu.agent.test_local_agent import wait_for_instances
from tests.gpu.agent.test_stock import annotate
from tests.local.embedded_cluster import NODES, PODS, advance_time, virtual_time, wait_for_condition

pytestmark = virtual_time

PODS_BEFORE = 25
MINUTES_BETWEEN = 4


async def run_pods(client: Client, count: int = PODS_BEFORE) -> None:
    """Pods that come one after another, each for a minute."""
    for number in range(count):
        name = f"job-{number}"
        await create_pod(client, name, "0:1g.10gb@6")
        await advance_time(60)
        await client.delete(PODS, name, "default", grace_period_seconds=0)
        await advance_time(60 * (MINUTES_BETWEEN - 1))


async def wait_for_count(client: Client, count: int) -> None:
    async def exist() -> bool:
        node = await client.get(NODES, NODE)
        if TOPOLOGY not in node["metadata"].get("annotations", {}):
            return False
        return len((await list_instances(client, NODE)).get(0, [])) == count

    await wait_for_condition(exist, within=600)


async def test_instances_that_pods_keep_asking_for_stay(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend("h100:1"), tmp_path):
        await run_pods(client)
        # Far longer than an idle instance stays.
        await advance_time(1200)
        assert ("1g.10gb", 6) in (await list_instances(client, NODE))[0]


async def test_next_instance_exists_before_its_pod_comes(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend("h100:1"), tmp_path):
        await run_pods(client)
        await create_pod(client, "long", "0:1g.10gb@6")
        await wait_for_count(client, 2)
        assert ("1g.10gb", 6) in (await list_instances(client, NODE))[0]


async def test_what_was_learnt_survives_a_restart(tmp_path: Path) -> None:
    async with run_node() as (_, client):
        backend = build_backend("h100:1")
        async with run_agent(client, backend, tmp_path):
            await run_pods(client)
        async with run_agent(client, backend, tmp_path):
            # Far longer than an idle instance stays.
            await advance_time(1200)
            assert ("1g.10gb", 6) in (await list_instances(client, NODE))[0]


async def test_demand_is_forgotten_while_no_agent_runs(tmp_path: Path) -> None:
    async with run_node() as (_, client):
        backend = build_backend("h100:1")
        async with run_agent(client, backend, tmp_path):
            await run_pods(client)
        await advance_time(6 * 3600)
        async with run_agent(client, backend, tmp_path):
            await advance_time(600)
            await wait_for_instances(client, {})


async def test_agent_learns_anew_where_the_file_is_damaged(tmp_path: Path) -> None:
    async with run_node() as (_, client):
        backend = build_backend("h100:1")
        async with run_agent(client, backend, tmp_path):
            await run_pods(client)
        file = tmp_path / DEMAND_FILE
        file.write_bytes(file.read_bytes()[:-4])
        async with run_agent(client, backend, tmp_path):
            await advance_time(1200)
            await wait_for_instances(client, {})
            await run_pods(client)
            await advance_time(1200)
            assert ("1g.10gb", 6) in (await list_instances(client, NODE))[0]


async def test_demand_that_ended_is_forgotten(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend("h100:1"), tmp_path):
        await run_pods(client)
        await advance_time(6 * 3600)
        await wait_for_instances(client, {})
        assert not (await read_topology(client, NODE)).gpus[0].mig_enabled


async def test_whole_gpu_is_given_at_once(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend("h100:1"), tmp_path):
        await run_pods(client)
        await create_pod(client, "whole", "0")
        await wait_for_instances(client, {})
        await advance_time(600)
        assert not (await read_topology(client, NODE)).gpus[0].mig_enabled


async def test_nothing_is_made_in_advance_without_prewarming(tmp_path: Path) -> None:
    settings = AgentSettings(prewarm_seconds=0)
    async with (
        run_node() as (_, client),
        run_agent(client, build_backend("h100:1"), tmp_path, settings=settings),
    ):
        await run_pods(client)
        await advance_time(600)
        await wait_for_instances(client, {})


async def test_stock_of_a_strategy_is_as_it_says(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend("h100:1"), tmp_path):
        await annotate(client, NodeMigStrategy("s", 1, {"3g.40gb": 0.5}))
        await wait_for_count(client, 1)
        await run_pods(client)
        await advance_time(600)
        profiles = sorted(name for name, _ in (await list_instances(client, NODE))[0])
        assert profiles == ["1g.10gb", "3g.40gb"]
