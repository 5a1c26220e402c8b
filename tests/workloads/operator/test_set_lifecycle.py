"""The lifecycle of whole sets on an embedded cluster, from apply to deletion."""

from typing import Any

from kilonova.api.grove import CliqueTemplate, PodCliqueSet
from tests.local.embedded_cluster import advance_time, virtual_time, wait_for_condition
from tests.workloads.api_objects import clique, group, pod_clique_set, pod_template
from tests.workloads.running_operator import running_operator
from tests.workloads.workload_cluster import (
    CLIQUES,
    CONTROLLER_REVISIONS,
    GANGS,
    NAMESPACE,
    PODS,
    SCALING_GROUPS,
    SERVICES,
    SETS,
    WorkloadCluster,
    workload_cluster,
)

pytestmark = virtual_time


def build_set(replicas: int, version: str = "1", **fields: Any) -> PodCliqueSet:
    """A leader, and groups of a head and two workers."""

    def part(name: str, count: int = 1) -> CliqueTemplate:
        spec = pod_template(nodeSelector={}, terminationGracePeriodSeconds=1)
        return clique(name, count, pod_spec=spec, annotations={"version": version})

    return pod_clique_set(
        part("leader"),
        part("head"),
        part("hand", 2),
        groups=[group("team", "head", "hand", replicas=2, min_available=1)],
        replicas=replicas,
        **fields,
    )


PODS_EACH = 7


def is_available(replicas: int) -> Any:
    def holds(status: Any) -> bool:
        counts = (status.get("replicas"), status.get("availableReplicas"))
        return counts == (replicas, replicas) and status.get("updatedReplicas") == replicas

    return holds


async def test_set_is_applied_scaled_updated_and_deleted_and_nothing_is_left() -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_set(3))
        await cluster.wait_for_status(is_available(3))
        assert len(await cluster.list_names(PODS)) == 3 * PODS_EACH
        assert await cluster.list_names(GANGS) == [
            each for i in range(3) for each in (f"sys-{i}", f"sys-{i}-team-0")
        ]
        for replicas in (5, 2, 0, 1):
            await cluster.client.set_scale(SETS, "sys", NAMESPACE, replicas)
            await cluster.wait_for_status(is_available(replicas))
            await wait_for_condition(lambda count=replicas * PODS_EACH: _has_pods(cluster, count))
            await advance_time()
            assert await cluster.list_names(CLIQUES) == sorted(_list_clique_names(replicas))
            assert await cluster.list_names(SCALING_GROUPS) == [
                f"sys-{i}-team" for i in range(replicas)
            ]
            assert len(await cluster.list_names(GANGS)) == 2 * replicas
            assert await cluster.list_names(SERVICES) == [
                "kubernetes",
                *(f"sys-{i}" for i in range(replicas)),
            ]
        await cluster.apply(build_set(1, version="2"))
        await cluster.wait_for_status(is_update_done)
        await wait_for_condition(lambda: _are_all_pods_at(cluster, "2"))
        assert len(await cluster.list_names(PODS)) == PODS_EACH
        assert len(await cluster.list_names(CONTROLLER_REVISIONS)) == 2
        await cluster.client.delete(SETS, "sys", NAMESPACE)
        await wait_for_condition(lambda: _is_empty(cluster))
        await advance_time(60)
        assert await cluster.list_remaining_objects() == []


def is_update_done(status: Any) -> bool:
    return bool(status.get("updateProgress", {}).get("updateEndedAt"))


def _list_clique_names(replicas: int) -> list[str]:
    return [
        name
        for i in range(replicas)
        for name in (
            f"sys-{i}-leader",
            *(f"sys-{i}-team-{j}-{each}" for j in range(2) for each in ("head", "hand")),
        )
    ]


async def _has_pods(cluster: WorkloadCluster, count: int) -> bool:
    return len(await cluster.list_names(PODS)) == count


async def _is_empty(cluster: WorkloadCluster) -> bool:
    return await cluster.list_remaining_objects() == []


async def _are_all_pods_at(cluster: WorkloadCluster, version: str) -> bool:
    pods = await cluster.list_objects(PODS)
    return {each["metadata"]["annotations"]["version"] for each in pods} == {version}
