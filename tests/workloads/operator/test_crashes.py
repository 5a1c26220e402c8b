"""An operator that crashes between any two writes, and another that continues."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.api.grove.podcliqueset import IN_ORDER
from kilonova.local.cluster import EmbeddedCluster
from tests.harness.campaigns import select_cases
from tests.local.embedded_cluster import NODES, advance_time, virtual_time, wait_for_condition
from tests.workloads.api_objects import clique, group, pod_clique_set, pod_template
from tests.workloads.crashing_operator import crashing_operator, restarts_clique
from tests.workloads.running_operator import running_operator
from tests.workloads.workload_cluster import (
    CHILDREN,
    CONTROLLER_REVISIONS,
    NAMESPACE,
    PODS,
    SETS,
    WorkloadCluster,
    workload_cluster,
)

pytestmark = virtual_time


@asynccontextmanager
async def crashing_operators(cluster: EmbeddedCluster, writes: int) -> AsyncGenerator[list[int]]:
    """One operator after another, each of which crashes after so many writes; yields their
    number.
    """
    restarts = [0]
    task = asyncio.create_task(_run_and_crash(cluster, writes, restarts))
    try:
        yield restarts
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _run_and_crash(cluster: EmbeddedCluster, writes: int, restarts: list[int]) -> None:
    while True:
        restarts[0] += 1
        # Half of the operators lose their last write; if all did, there would be no progress.
        arrives = writes == 1 or restarts[0] % 2 == 0
        async with crashing_operator(cluster, writes, last_write_arrives=arrives) as died:
            await died.wait()


def build_set(replicas: int, version: str) -> Any:
    spec = pod_template(terminationGracePeriodSeconds=1)
    return pod_clique_set(
        clique("front", pod_spec=spec, annotations={"version": version}),
        clique("hand", 2, pod_spec=spec),
        groups=[group("team", "hand", replicas=2)],
        replicas=replicas,
    )


async def list_object_names(cluster: WorkloadCluster) -> dict[str, list[str]]:
    return {
        each.plural: await cluster.list_names(each)
        for each in CHILDREN
        if each not in (PODS, CONTROLLER_REVISIONS)
    }


@pytest.mark.campaign
@pytest.mark.parametrize("writes", select_cases([1, 2, 3, 7, 20], 3))
async def test_crash_after_any_write_converges_to_the_same_state(writes: int) -> None:
    async with (
        workload_cluster() as cluster,
        crashing_operators(cluster.cluster, writes) as restarts,
    ):
        await cluster.apply(build_set(2, "1"))
        await wait_for_condition(are_all_ready(cluster, 2, 10), within=600)
        await cluster.apply(build_set(2, "2"))
        await wait_for_condition(are_all_ready(cluster, 2, 10, fronts={"2"}), within=600)
        await cluster.client.set_scale(SETS, "sys", NAMESPACE, 1)
        await wait_for_condition(are_all_ready(cluster, 1, 5, fronts={"2"}), within=600)
        assert await list_object_names(cluster) == {
            "podcliques": ["sys-0-front", "sys-0-team-0-hand", "sys-0-team-1-hand"],
            "podcliquescalinggroups": ["sys-0-team"],
            "podgangs": ["sys-0", "sys-0-team-0"],
            "services": ["kubernetes", "sys-0"],
            "horizontalpodautoscalers": [],
            "resourceclaims": [],
        }
        await cluster.client.delete(SETS, "sys", NAMESPACE)

        async def is_empty() -> bool:
            return await cluster.list_remaining_objects() == []

        await wait_for_condition(is_empty, within=600)
        await advance_time(60)
        assert await cluster.list_remaining_objects() == []
        assert restarts[0] > 60 / writes


@pytest.mark.parametrize("writes", [1, 2, 3])
async def test_restart_interrupted_by_a_crash_is_completed(writes: int) -> None:
    spec = pod_template(terminationGracePeriodSeconds=1)
    set_ = pod_clique_set(
        *(clique(name, pod_spec=spec) for name in "abc"), startup=IN_ORDER, termination_delay="10s"
    )
    async with workload_cluster() as cluster:
        restarted = crashing_operator(
            cluster.cluster, writes, last_write_arrives=True, counts_as_write=restarts_clique
        )
        async with restarted as died:
            await cluster.apply(set_)
            await wait_for_condition(are_all_ready(cluster, 1, 3))
            before = {each["metadata"]["uid"] for each in await cluster.list_objects(PODS)}
            await cordon_nodes(cluster, True)
            lost = next(
                each for each in await cluster.list_names(PODS) if each.startswith("sys-0-a-")
            )
            await cluster.client.delete(PODS, lost, NAMESPACE, grace_period_seconds=0)
            await asyncio.wait_for(died.wait(), 60)
        async with running_operator(cluster.cluster):
            await advance_time(5)
            await cordon_nodes(cluster, False)
            await wait_for_condition(are_all_ready(cluster, 1, 3))
            after = {each["metadata"]["uid"] for each in await cluster.list_objects(PODS)}
            assert not before & after


async def cordon_nodes(cluster: WorkloadCluster, closed: bool) -> None:
    """Cordon or uncordon all nodes."""
    for node in await cluster.list_objects(NODES):
        patch = {"spec": {"unschedulable": closed or None}}
        await cluster.client.patch(NODES, node["metadata"]["name"], patch)


def are_all_ready(
    cluster: WorkloadCluster, replicas: int, pods: int, fronts: set[str] | None = None
) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        status = await cluster.get_status()
        found = await cluster.list_objects(PODS)
        versions = {
            each["metadata"]["annotations"]["version"]
            for each in found
            if "version" in each["metadata"].get("annotations", {})
        }
        return (
            len(found) == pods
            and all(each["status"].get("phase") == "Running" for each in found)
            and status.get("availableReplicas") == status.get("replicas") == replicas
            and status.get("updatedReplicas") == replicas
            and (fronts is None or versions == fronts)
        )

    return holds
