"""A PodClique controller that crashes at any write; another one continues."""

import asyncio
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.grove.common import RollingUpdate
from tests.harness.campaigns import select_cases
from tests.local.embedded_cluster import (
    advance_time,
    virtual_time,
    wait_deleted,
    wait_for_condition,
)
from tests.workloads.api_objects import clique, pod_clique_set
from tests.workloads.controllers.podclique.clique_cluster import (
    CliqueCluster,
    ControllerProcess,
    clique_cluster,
)
from tests.workloads.workload_cluster import CLIQUES, GANGS, NAMESPACE, PODS, SETS

pytestmark = virtual_time

A, W = "sys-0-a", "sys-0-w"


async def run_scenario(cluster: CliqueCluster) -> Any:
    """Two cliques start in order, one is scaled and updated, one is restarted."""
    surge = RollingUpdate(0, 1)
    templates = clique("a", 2, 1), clique("w", 2, after=["a"], rolling_update=surge)
    startup: Any = "CliqueStartupTypeExplicit"
    set_ = await cluster.add_set(pod_clique_set(*templates, startup=startup))
    created = [await cluster.add_clique(set_, name) for name in ("w", "a")]
    await cluster.add_gang(*created)
    await cluster.wait_until_ready(2, A)
    await cluster.wait_until_ready(2)
    await cluster.scale(W, 3)
    await _listed_until_ready(cluster, 3)
    await cluster.allow_update()
    await cluster.change_template(W, "second", "img:2")
    await cluster.wait_for_status(lambda each: "updateProgress" in each)
    await _listed_until_ready(cluster, 3)
    before = await cluster.list_pods(A)
    await cluster.patch(CLIQUES, A, {"metadata": {"annotations": {names.INCARNATION: "1"}}})
    await cluster.wait_until_deleted(before)
    await _listed_until_ready(cluster, 2, A)
    await cluster.scale(W, 1)
    await cluster.wait_until_ready(1)
    await advance_time(5)
    return await _snapshot_objects(cluster)


async def _listed_until_ready(cluster: CliqueCluster, count: int, name: str = W) -> None:
    async def condition() -> bool:
        await cluster.add_pods_to_gang()
        status = await cluster.get_status(name)
        fields = ("replicas", "readyReplicas", "updatedReplicas")
        over = "updateEndedAt" in status.get("updateProgress", {"updateEndedAt": ""})
        # The status may be outdated while no controller runs.
        true = sum(map(_is_ready, await cluster.list_pods(name))) == count
        return true and over and all(status.get(field) == count for field in fields)

    await wait_for_condition(condition, within=300)


def _is_ready(pod: Any) -> bool:
    known = pod["status"].get("conditions", [])
    return any((each["type"], each["status"]) == ("Ready", "True") for each in known)


async def _snapshot_objects(cluster: CliqueCluster) -> Any:
    """What there is, without what differs from one run to the next."""
    pods = [
        {
            **{key: value for key, value in each["metadata"].items() if key in _COMPARED_FIELDS},
            "gates": each["spec"].get("schedulingGates"),
            "image": each["spec"]["containers"][0]["image"],
            "hostname": each["spec"]["hostname"],
        }
        for each in await cluster.cluster.list_objects(PODS)
    ]
    statuses = {name: _normalise(await cluster.get_status(name)) for name in (A, W)}
    return {"pods": sorted(pods, key=lambda each: each["hostname"]), "statuses": statuses}


_COMPARED_FIELDS = ("labels", "annotations", "generateName", "deletionTimestamp")


def _normalise(value: Any, field: str = "") -> Any:
    if field.endswith(("Time", "At")):
        return "TIME"
    if field == "readyPodsSelectedToUpdate":
        return len({value["current"], *value["completed"]})
    if isinstance(value, dict):
        return {key: _normalise(item, key) for key, item in value.items()}
    if field == "conditions":
        return sorted((_normalise(each) for each in value), key=lambda each: each["type"])
    return value


async def _delete_all(cluster: CliqueCluster) -> None:
    client = cluster.cluster.client
    for resource, name in ((CLIQUES, A), (CLIQUES, W), (GANGS, "sys-0"), (SETS, "sys")):
        await client.delete(resource, name, NAMESPACE)
        await wait_deleted(client, resource, name)

    async def nothing_left() -> bool:
        return not await cluster.cluster.list_remaining_objects()

    await wait_for_condition(nothing_left)


async def crash_and_recover(cluster: CliqueCluster, writes: int | None) -> tuple[Any, int]:
    """The final state of the scenario when the process crashes after so many writes, and how many
    there were.
    """
    first = ControllerProcess(cluster.cluster.cluster, writes)
    left: list[Any] = []

    async def history() -> None:
        left.append(await run_scenario(cluster))
        await _delete_all(cluster)

    playing = asyncio.create_task(history())
    async with first.running():
        dying = asyncio.create_task(first.crashed.wait())
        await asyncio.wait({playing, dying}, return_when=asyncio.FIRST_COMPLETED)
        dying.cancel()
    if not playing.done():
        async with ControllerProcess(cluster.cluster.cluster).running():
            await playing
    await playing
    return left[0], len(first.writes)


@pytest.mark.campaign
async def test_scenario_converges_wherever_the_controller_crashes() -> None:
    async with clique_cluster() as cluster:
        expected, total = await crash_and_recover(cluster, None)
        assert total >= 30
        for writes in select_cases(range(total), 8):
            left, before = await crash_and_recover(cluster, writes)
            assert before == writes, "it did not crash"
            assert left == expected, f"after {writes} writes"
