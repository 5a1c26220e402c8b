"""Assertions about pending and running gangs."""

from collections import Counter
from typing import Any

from kilonova.api.grove import names
from tests.workloads.scenarios.support.scenario_cluster import ScenarioCluster, is_ready
from tests.workloads.workload_cluster import CLIQUES, GANGS


async def assert_stable(cluster: ScenarioCluster, *, running: int, waiting: int) -> Counter[str]:
    """Assert that so many pods run and so many are pending, without further changes; the running
    ones by clique.
    """

    async def condition() -> bool:
        pods = await cluster.list_pods()
        ready = [each for each in pods if is_ready(each)]
        rejected = [each for each in pods if is_gated(each) or is_unschedulable(each)]
        return (len(ready), len(rejected), len(pods)) == (running, waiting, running + waiting)

    await cluster.wait_until(condition)
    await cluster.wait_until_settled()
    assert await condition()
    return Counter(map(get_clique_name, await cluster.list_ready_pods()))


async def assert_whole_or_none(cluster: ScenarioCluster) -> None:
    """Assert that no gang runs with less than minReplicas."""
    placed = Counter(get_clique_name(each) for each in await cluster.list_pods() if is_placed(each))
    for gang in await cluster.list_objects(GANGS):
        groups = gang["spec"]["podgroups"]
        enough = [placed[each["name"]] >= each["minReplicas"] for each in groups]
        assert all(enough) or not any(placed[each["name"]] for each in groups), gang


async def wait_until_gangs_run(cluster: ScenarioCluster, *gangs: str) -> None:
    """Wait until there are exactly these gangs, all in phase Running."""

    async def condition() -> bool:
        found = await cluster.list_objects(GANGS)
        running = [each["metadata"]["name"] for each in found if get_phase(each) == "Running"]
        return running == sorted(gangs) == [each["metadata"]["name"] for each in found]

    await cluster.wait_until(condition)


async def wait_until_breached(
    cluster: ScenarioCluster, clique: str, breached: str = "True"
) -> None:
    """Wait until a clique is MinAvailableBreached, or is not."""

    async def condition() -> bool:
        found = await cluster.get(CLIQUES, clique)
        return get_conditions(found).get("MinAvailableBreached") == breached

    await cluster.wait_until(condition)


def get_conditions(found: Any) -> dict[str, str]:
    """The conditions of an object by their types."""
    return {each["type"]: each["status"] for each in found["status"].get("conditions", [])}


def get_phase(gang: Any) -> str:
    return gang.get("status", {}).get("phase", "")


def get_clique_name(pod: Any) -> str:
    return pod["metadata"]["labels"][names.POD_CLIQUE]


def is_placed(pod: Any) -> bool:
    return bool(pod["spec"].get("nodeName"))


def is_gated(pod: Any) -> bool:
    """Whether the operator does not let it be placed yet."""
    return any(
        each["name"] == names.POD_GANG_GATE for each in pod["spec"].get("schedulingGates", [])
    )


def is_unschedulable(pod: Any) -> bool:
    """Whether the scheduler has no node for it."""
    conditions = pod.get("status", {}).get("conditions", [])
    reasons = [each.get("reason") for each in conditions]
    return not is_placed(pod) and "Unschedulable" in reasons
