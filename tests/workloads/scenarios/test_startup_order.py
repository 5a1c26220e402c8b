"""SO: cliques start in the order of their set, separately in each gang."""

from datetime import datetime
from itertools import pairwise
from typing import Any

from kilonova.api.grove import names
from kilonova.api.times import parse_time
from kilonova.local.simnodes.fleet.model import NodeGroup
from tests.workloads.scenarios.support.gang_checks import wait_until_gangs_run
from tests.workloads.scenarios.support.pod_history import PodHistory, PodSnapshot, pod_history
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.scenario_cluster import ScenarioCluster, scenario_cluster
from tests.workloads.workload_cluster import CLIQUES

Order = dict[str, list[str]]
"""What each clique starts after; those that start at once are not there."""


async def run_and_follow(api: ScenarioApi, set_: str, order: Order, *gangs: str) -> None:
    """Start a set of ten pods, and assert that no clique starts too early."""
    order = {f"{set_}-0-{name}": _full_names(set_, after) for name, after in order.items()}
    slow = NodeGroup(f"{api.namespace}-n", 10, memory="150Mi", start="200ms-400ms", stop="10ms")
    async with (
        scenario_cluster(api, free_nodes=10, node_groups=[slow]) as cluster,
        pod_history(cluster) as history,
    ):
        await cluster.apply(set_)
        await history.wait_until_ready(10)
        await wait_until_gangs_run(cluster, *(f"{set_}-0{each}" for each in gangs))
        cliques = await cluster.list_objects(CLIQUES)
        after = {each["metadata"]["name"]: each["spec"].get("startsAfter", []) for each in cliques}
        assert {name: found for name, found in after.items() if found} == order
        needed = {each["metadata"]["name"]: each["spec"]["minAvailable"] for each in cliques}
        assert_no_pod_starts_early(history, order, needed)
        await assert_ready_in_order(cluster, order, needed)
        await assert_init_containers(cluster, order)


def assert_no_pod_starts_early(history: PodHistory, order: Order, needed: dict[str, int]) -> None:
    """Assert that pods are created unreleased, and released when enough dependencies are ready."""
    for clique, after in order.items():
        created_pods = [each for each in history.created if each.clique == clique]
        assert not any(each.released for each in created_pods[: needed[clique]])
        for before, moment in pairwise([(), *history.snapshots]):
            if _count_released(moment, clique) > _count_released(before, clique):
                assert all(_count_ready(moment, each) >= needed[each] for each in after)
            assert _count_ready(moment, clique) <= _count_released(moment, clique)


async def assert_ready_in_order(
    cluster: ScenarioCluster, order: Order, needed: dict[str, int]
) -> None:
    for clique, after in order.items():
        first = min(map(_get_ready_time, await cluster.list_pods(clique)))
        for each in after:
            times = sorted(map(_get_ready_time, await cluster.list_pods(each)))
            assert times[needed[each] - 1] <= first


async def assert_init_containers(cluster: ScenarioCluster, order: Order) -> None:
    for pod in await cluster.list_pods():
        delays = [each["name"] for each in pod["spec"].get("initContainers", [])]
        is_after_others = pod["metadata"]["labels"][names.POD_CLIQUE] in order
        assert delays == ([names.STARTUP_CONTAINER] if is_after_others else [])


def _full_names(set_: str, cliques: list[str]) -> list[str]:
    return [f"{set_}-0-{each}" for each in cliques]


def _count_released(moment: PodSnapshot, clique: str) -> int:
    return sum(each.released for each in moment if each.clique == clique)


def _count_ready(moment: PodSnapshot, clique: str) -> int:
    return sum(each.ready for each in moment if each.clique == clique)


def _get_ready_time(pod: Any) -> datetime:
    (ready,) = [each for each in pod["status"]["conditions"] if each["type"] == "Ready"]
    return parse_time(ready["lastTransitionTime"])


async def test_so1_cliques_that_need_all_their_pods_start_in_order(api: ScenarioApi) -> None:
    order = {
        "sg-x-0-pc-b": ["pc-a"],
        "sg-x-1-pc-b": ["pc-a"],
        "sg-x-0-pc-c": ["sg-x-0-pc-b", "sg-x-1-pc-b"],
        "sg-x-1-pc-c": ["sg-x-0-pc-b", "sg-x-1-pc-b"],
    }
    await run_and_follow(api, "workload3", order, "")


async def test_so2_cliques_start_in_order_when_they_have_what_they_need(api: ScenarioApi) -> None:
    order = {
        "sg-x-0-pc-b": ["pc-a"],
        "sg-x-0-pc-c": ["sg-x-0-pc-b"],
        "sg-x-1-pc-c": ["sg-x-1-pc-b"],
    }
    await run_and_follow(api, "workload4", order, "", "-sg-x-0")


async def test_so3_cliques_that_need_all_their_pods_start_after_those_they_name(
    api: ScenarioApi,
) -> None:
    order = {
        "sg-x-0-pc-c": ["pc-a"],
        "sg-x-1-pc-c": ["pc-a"],
        "sg-x-0-pc-b": ["sg-x-0-pc-c", "sg-x-1-pc-c"],
        "sg-x-1-pc-b": ["sg-x-0-pc-c", "sg-x-1-pc-c"],
    }
    await run_and_follow(api, "workload5", order, "")


async def test_so4_cliques_start_after_those_they_name_have_what_they_need(
    api: ScenarioApi,
) -> None:
    order = {
        "sg-x-0-pc-b": ["pc-a"],
        "sg-x-0-pc-c": ["sg-x-0-pc-b"],
        "sg-x-1-pc-c": ["sg-x-1-pc-b"],
    }
    await run_and_follow(api, "workload6", order, "", "-sg-x-0")
