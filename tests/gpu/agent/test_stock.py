"""Instances in stock: of a MIGStrategy, and of the label `nvidia.com/mig.config`."""

from pathlib import Path
from typing import Any

from kilonova.api.crds import load_definitions
from kilonova.api.gpu.mig_strategy import MIG_STRATEGY, NodeMigStrategy, format_mig_strategy
from kilonova.kube import Client, NotFound
from kilonova.local.apiserver.bootstrap import install_crds
from tests.gpu.agent.agent_cluster import find_condition_of, list_instances, read_topology
from tests.gpu.agent.local_agents import NODE, build_backend, create_pod, run_agent, run_node
from tests.gpu.agent.test_local_agent import wait_for_instances
from tests.gpu.controllers.workload_cluster import STRATEGIES
from tests.local.embedded_cluster import NODES, PODS, advance_time, virtual_time, wait_for_condition

pytestmark = virtual_time


async def annotate(client: Client, strategy: NodeMigStrategy | None) -> None:
    text = None if strategy is None else format_mig_strategy(strategy)
    body: Any = {"metadata": {"annotations": {MIG_STRATEGY: text}}}
    await client.patch(NODES, NODE, body)


async def set_config(client: Client, name: str | None) -> None:
    body: Any = {"metadata": {"labels": {"nvidia.com/mig.config": name}}}
    await client.patch(NODES, NODE, body)


async def wait_for_state(client: Client, state: str | None) -> None:
    async def reached() -> bool:
        labels = (await client.get(NODES, NODE))["metadata"].get("labels", {})
        return labels.get("nvidia.com/mig.config.state") == state

    await wait_for_condition(reached)


async def count_profiles(client: Client) -> dict[str, int]:
    counts: dict[str, int] = {}
    for instances in (await list_instances(client, NODE)).values():
        for profile, _ in instances:
            counts[profile] = counts.get(profile, 0) + 1
    return counts


async def test_strategy_puts_instances_in_stock(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend(), tmp_path):
        await annotate(client, NodeMigStrategy("s", 1, {"1g.10gb": 0.5, "3g.40gb": 0.5}))

        async def stocked() -> bool:
            topology = (await client.get(NODES, NODE))["metadata"].get("annotations", {})
            if "gpu.kilonova.dev/topology" not in topology:
                return False
            counts = await count_profiles(client)
            return counts == {"1g.10gb": 7, "3g.40gb": 2}

        await wait_for_condition(stocked)
        ready = await find_condition_of(client, NODE, "MIGReady")
        assert ready["status"] == "True"


async def wait_for_ready(client: Client, status: str, reason: str) -> None:
    """Wait for the condition MIGReady."""

    async def holds() -> bool:
        found = await find_condition_of(client, NODE, "MIGReady")
        return found is not None and (found["status"], found["reason"]) == (status, reason)

    await wait_for_condition(holds)


async def test_remainder_of_the_fractions_is_no_problem(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend("h100:8"), tmp_path):
        stock = {"1g.10gb": 0.7, "2g.20gb": 0.2, "3g.40gb": 0.1}
        await annotate(client, NodeMigStrategy("inference-optimized", 1, stock, dynamic=True))

        async def stocked() -> bool:
            topology = (await client.get(NODES, NODE))["metadata"].get("annotations", {})
            if "gpu.kilonova.dev/topology" not in topology:
                return False
            return sum((await count_profiles(client)).values()) >= 47

        await wait_for_condition(stocked)
        # 45 instances of 1g.10gb would be 70 %; 39 have a place beside the others.
        await wait_for_ready(client, "True", "InstancesExist")


async def test_stock_that_pods_keep_from_its_place_is_told(tmp_path: Path) -> None:
    async with (
        run_node(devices=["0:1g.10gb@0"]) as (_, client),
        run_agent(client, build_backend("h100:1"), tmp_path),
    ):
        strategy = NodeMigStrategy("large", 1, {"7g.80gb": 1.0}, dynamic=True, min_utilization=1.0)
        await annotate(client, strategy)
        await wait_for_ready(client, "False", "StockNotPlaced")


async def test_strategy_for_some_gpus_leaves_the_others(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend(), tmp_path):
        await annotate(client, NodeMigStrategy("s", 1, {"3g.40gb": 1.0}, gpus=(1,)))
        await wait_for_instances(client, {1: [("3g.40gb", 0), ("3g.40gb", 4)]})
        topology = await read_topology(client, NODE)
        assert not topology.gpus[0].mig_enabled


async def test_pod_gets_its_instance_whatever_is_in_stock(tmp_path: Path) -> None:
    backend = build_backend("h100:1")
    async with run_node() as (_, client), run_agent(client, backend, tmp_path):
        await annotate(client, NodeMigStrategy("s", 1, {"1g.10gb": 1.0}))
        await wait_for_instances(client, {0: [("1g.10gb", start) for start in range(7)]})
        await create_pod(client, "large", "0:3g.40gb@4")

        async def has() -> bool:
            return ("3g.40gb", 4) in (await list_instances(client, NODE)).get(0, [])

        await wait_for_condition(has)
        counts = await count_profiles(client)
        assert counts == {"1g.10gb": 4, "3g.40gb": 1}


async def test_dynamic_strategy_replaces_unused_instances_once_per_interval(
    tmp_path: Path,
) -> None:
    async with (
        run_node() as (_, client),
        run_agent(client, build_backend("h100:1"), tmp_path),
    ):
        first = NodeMigStrategy("s", 1, {"3g.40gb": 1.0}, dynamic=True, interval=100)
        await annotate(client, first)
        await wait_for_instances(client, {0: [("3g.40gb", 0), ("3g.40gb", 4)]})
        second = NodeMigStrategy("s", 2, {"1g.10gb": 1.0}, dynamic=True, interval=100)
        await annotate(client, second)
        await wait_for_instances(client, {0: [("1g.10gb", start) for start in range(7)]})


async def test_static_strategy_destroys_nothing(tmp_path: Path) -> None:
    async with (
        run_node() as (_, client),
        run_agent(client, build_backend("h100:1"), tmp_path),
    ):
        await annotate(client, NodeMigStrategy("s", 1, {"3g.40gb": 1.0}))
        wanted = {0: [("3g.40gb", 0), ("3g.40gb", 4)]}
        await wait_for_instances(client, wanted)
        await annotate(client, NodeMigStrategy("s", 2, {"1g.10gb": 1.0}))
        await advance_time(600)
        assert await list_instances(client, NODE) == wanted


async def test_config_label_is_honoured_and_its_state_is_said(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend(), tmp_path):
        await set_config(client, "all-3g.40gb")
        both = [("3g.40gb", 0), ("3g.40gb", 4)]
        await wait_for_instances(client, {0: both, 1: both})
        await wait_for_state(client, "success")
        await set_config(client, "all-balanced")

        async def balanced() -> bool:
            return await count_profiles(client) == {"1g.10gb": 4, "2g.20gb": 2, "3g.40gb": 2}

        await wait_for_condition(balanced)
        await wait_for_state(client, "success")
        await set_config(client, "all-disabled")
        await wait_for_instances(client, {})
        await wait_for_state(client, "success")
        await set_config(client, None)
        await wait_for_state(client, None)


async def test_unknown_config_is_said(tmp_path: Path) -> None:
    async with run_node() as (_, client), run_agent(client, build_backend(), tmp_path):
        await set_config(client, "all-9g.99gb")
        await wait_for_state(client, "failed")
        ready = await find_condition_of(client, NODE, "MIGReady")
        assert ready["reason"] == "UnknownConfig"


async def test_config_that_a_pod_stands_against_waits_for_it(tmp_path: Path) -> None:
    async with (
        run_node(["0:1g.10gb@0"]) as (_, client),
        run_agent(client, build_backend("h100:1"), tmp_path),
    ):
        await wait_for_instances(client, {0: [("1g.10gb", 0)]})
        await set_config(client, "all-3g.40gb")
        await advance_time(60)
        assert await list_instances(client, NODE) == {0: [("1g.10gb", 0)]}
        await wait_for_state(client, "pending")
        await client.delete(PODS, "pod-0", "default", grace_period_seconds=0)
        await wait_for_instances(client, {0: [("3g.40gb", 0), ("3g.40gb", 4)]})
        await wait_for_state(client, "success")


async def install_strategies(client: Client, selector: dict[str, str]) -> None:
    """The kind, and a strategy named all for nodes with these labels."""
    await install_crds(client, load_definitions())

    async def served() -> bool:
        try:
            await client.list(STRATEGIES)
        except NotFound:
            return False
        return True

    await wait_for_condition(served)
    body: Any = {
        "metadata": {"name": "all"},
        "spec": {"nodeSelector": selector, "profileDistribution": {"3g.40gb": 0.5}},
    }
    await client.create(STRATEGIES, body)


async def read_withheld(client: Client) -> tuple[list[str], str]:
    """Why each GPU is withheld, and how many are allocatable as a whole."""
    topology = await read_topology(client, NODE)
    node = await client.get(NODES, NODE)
    return [gpu.withheld for gpu in topology.gpus], node["status"]["allocatable"]["nvidia.com/gpu"]


async def wait_for_withheld(client: Client, reasons: list[str], allocatable: str) -> None:
    async def reached() -> bool:
        node = await client.get(NODES, NODE)
        if "gpu.kilonova.dev/topology" not in node["metadata"].get("annotations", {}):
            return False
        return await read_withheld(client) == (reasons, allocatable)

    await wait_for_condition(reached)


async def test_gpus_of_a_config_are_not_offered_as_a_whole(tmp_path: Path) -> None:
    async with run_node() as (_, client):
        await set_config(client, "all-3g.40gb")
        async with run_agent(client, build_backend(), tmp_path):
            reason = "label nvidia.com/mig.config: all-3g.40gb"
            await wait_for_withheld(client, [reason, reason], "0")
            await set_config(client, "all-disabled")
            await wait_for_withheld(client, ["", ""], "2")


async def test_gpu_that_a_pod_has_stays_allocatable_until_the_pod_ends(tmp_path: Path) -> None:
    async with run_node(["0"]) as (_, client), run_agent(client, build_backend(), tmp_path):
        strategy = NodeMigStrategy("s", 1, {"3g.40gb": 1.0})
        await annotate(client, strategy)
        await wait_for_withheld(client, ["MIGStrategy s", "MIGStrategy s"], "1")
        await annotate(client, None)
        await set_config(client, "all-3g.40gb")
        reason = "label nvidia.com/mig.config: all-3g.40gb"
        await wait_for_withheld(client, [reason, reason], "1")
        await client.delete(PODS, "pod-0", "default", grace_period_seconds=0)
        await wait_for_withheld(client, [reason, reason], "0")


async def test_new_node_offers_no_whole_gpu_before_its_strategy_is_assigned(
    tmp_path: Path,
) -> None:
    async with run_node() as (_, client):
        await install_strategies(client, {})
        async with run_agent(client, build_backend(), tmp_path):
            reason = "MIGStrategy all is not assigned yet"
            await wait_for_withheld(client, [reason, reason], "0")
            await annotate(client, NodeMigStrategy("all", 1, {"3g.40gb": 0.5}))
            await wait_for_withheld(client, ["MIGStrategy all", ""], "1")


async def test_kubelet_plugins_see_what_is_withheld_once_it_is_decided(tmp_path: Path) -> None:
    async with run_node() as (_, client):
        await set_config(client, "all-3g.40gb")
        async with run_agent(client, build_backend(), tmp_path) as local:
            await local.wait_until_decided()
            reason = "label nvidia.com/mig.config: all-3g.40gb"
            assert [each.withheld for each in local.feed.inventory.devices] == [reason, reason]


async def test_new_node_does_not_wait_for_a_strategy_for_ever(tmp_path: Path) -> None:
    async with run_node() as (_, client):
        await install_strategies(client, {"nvidia.com/gpu.count": "2"})
        async with run_agent(client, build_backend(), tmp_path):
            reason = "MIGStrategy all is not assigned yet"
            await wait_for_withheld(client, [reason, reason], "0")
            await advance_time(31)
            await wait_for_withheld(client, ["", ""], "2")


async def test_new_node_does_not_wait_for_strategies_of_other_nodes(tmp_path: Path) -> None:
    async with run_node() as (_, client):
        await install_strategies(client, {"pool": "other"})
        async with run_agent(client, build_backend(), tmp_path) as local:
            async with local.changed:
                await local.changed.wait()
            assert await read_withheld(client) == (["", ""], "2")
