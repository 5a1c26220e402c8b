"""Updates on a cluster without capacity for the whole set."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.local.simnodes.fleet.model import Fleet, NodeGroup
from kilonova.local.simnodes.pods.image_pulls import IMAGE_PULL_ANNOTATION
from tests.local.embedded_cluster import NODES, advance_time, virtual_time, wait_for_condition
from tests.workloads.api_objects import clique, group, pod_clique_set, pod_template
from tests.workloads.running_operator import running_operator
from tests.workloads.workload_cluster import (
    CLIQUES,
    NAMESPACE,
    PODS,
    SCALING_GROUPS,
    WorkloadCluster,
    workload_cluster,
)

pytestmark = virtual_time


def build_big_clique(name: str, version: str, count: int = 1) -> Any:
    """A clique of pods that fill a node each, with minAvailable 1."""
    spec = pod_template(terminationGracePeriodSeconds=1)
    spec["containers"][0]["resources"] = {"requests": {"cpu": "40"}}
    return clique(name, count, 1, pod_spec=spec, annotations={"version": version})


def build_fleet(count: int) -> Fleet:
    return Fleet((NodeGroup("node", count),))


def is_update_done(status: Any) -> bool:
    return bool(status.get("updateProgress", {}).get("updateEndedAt"))


def get_version(pod: Any) -> str:
    return pod["metadata"]["annotations"]["version"]


async def list_versions(cluster: WorkloadCluster) -> dict[str, str]:
    """The version of each replica's pods."""
    return {
        pod["metadata"]["labels"][names.SET_REPLICA_INDEX]: get_version(pod)
        for pod in await cluster.list_objects(PODS)
    }


async def test_replica_without_capacity_does_not_block_others() -> None:
    async with workload_cluster(fleet=build_fleet(2)) as cluster, running_operator(cluster.cluster):
        await cluster.apply(pod_clique_set(build_big_clique("front", "1"), replicas=3))
        await cluster.wait_for_status(lambda status: status.get("availableReplicas") == 2)
        await advance_time(30)
        await cluster.apply(pod_clique_set(build_big_clique("front", "2"), replicas=3))
        await cluster.wait_for_status(is_update_done, timeout=600)
        assert await list_versions(cluster) == {"0": "2", "1": "2", "2": "2"}
        await cluster.wait_for_status(lambda status: status["availableReplicas"] == 2)


async def test_pod_lost_after_an_earlier_update_does_not_block_a_later_one() -> None:
    def a_set(a: str, b: str) -> Any:
        small = pod_template(terminationGracePeriodSeconds=1)
        other = clique("b", pod_spec=small, annotations={"version": b})
        return pod_clique_set(build_big_clique("a", a, 2), other, replicas=2)

    async with workload_cluster(fleet=build_fleet(4)) as cluster, running_operator(cluster.cluster):
        await cluster.apply(a_set("1", "1"))
        await cluster.wait_for_status(lambda status: status.get("availableReplicas") == 2)
        await advance_time(5)
        await cluster.apply(a_set("2", "1"))
        await cluster.wait_for_status(is_update_done)
        await advance_time(5)
        await delete_pods(cluster, "sys-0-a")
        await cluster.apply(a_set("2", "2"))
        await cluster.wait_for_status(
            lambda each: each["observedGeneration"] == 3 and is_update_done(each)
        )
        assert (await cluster.get_status())["availableReplicas"] == 2


async def test_pods_beyond_the_required_ones_without_capacity_block_no_update() -> None:
    async with workload_cluster(fleet=build_fleet(1)) as cluster, running_operator(cluster.cluster):
        await cluster.apply(pod_clique_set(build_big_clique("a", "1", 3)))
        await cluster.wait_for_status(lambda status: status.get("availableReplicas") == 1)
        await advance_time(20)
        await cluster.apply(pod_clique_set(build_big_clique("a", "2", 3)))
        await cluster.wait_for_status(is_update_done)
        assert {get_version(each) for each in await cluster.list_objects(PODS)} == {"2"}
        await cluster.wait_for_status(lambda status: status["availableReplicas"] == 1)


async def test_partially_placed_replica_does_not_block_others() -> None:
    def a_set(version: str) -> Any:
        small = pod_template(terminationGracePeriodSeconds=1)
        other = clique("b", pod_spec=small, annotations={"version": version})
        return pod_clique_set(build_big_clique("a", version), other, replicas=2)

    async with workload_cluster(fleet=build_fleet(2)) as cluster, running_operator(cluster.cluster):
        await cluster.apply(a_set("1"))
        await cluster.wait_for_status(lambda status: status.get("availableReplicas") == 2)
        await advance_time(5)
        await delete_pods(cluster, "sys-1-a")
        await cluster.apply(a_set("2"))
        await cluster.wait_for_status(is_update_done)
        assert await list_versions(cluster) == {"0": "2", "1": "2"}


async def test_bad_update_of_a_set_with_a_failed_replica_takes_no_other_down() -> None:
    async with workload_cluster(fleet=build_fleet(2)) as cluster, running_operator(cluster.cluster):
        await cluster.apply(pod_clique_set(build_big_clique("a", "1"), replicas=2))
        await cluster.wait_for_status(lambda status: status.get("availableReplicas") == 2)
        await advance_time(5)
        node = await delete_pods(cluster, "sys-0-a")
        await cluster.client.patch(NODES, node, {"spec": {"unschedulable": False}})
        bad = clique(
            "a",
            pod_spec=build_big_clique("a", "2").spec.pod_spec,
            annotations={"version": "2", IMAGE_PULL_ANNOTATION: "error"},
        )
        await cluster.apply(pod_clique_set(bad, replicas=2))
        await advance_time(120)
        assert await list_versions(cluster) == {"0": "2", "1": "1"}
        assert (await cluster.get_status())["availableReplicas"] == 1


async def test_clique_scaled_to_zero_does_not_release_all_replicas_at_once() -> None:
    def a_set(version: str) -> Any:
        idle = build_big_clique("idle", "1")
        idle.spec.pod_spec["nodeSelector"] = {"no": "such"}
        return pod_clique_set(build_big_clique("a", version), idle, replicas=3)

    async with workload_cluster(fleet=build_fleet(3)) as cluster, running_operator(cluster.cluster):
        await cluster.apply(a_set("1"))
        await advance_time(5)
        for name in ("sys-0-idle", "sys-1-idle", "sys-2-idle"):
            await cluster.client.patch(CLIQUES, name, {"spec": {"replicas": 0}}, NAMESPACE)
        await cluster.wait_for_status(lambda status: status.get("availableReplicas") == 3)
        await advance_time(5)
        least = 3

        def ends(status: Any) -> bool:
            nonlocal least
            least = min(least, status["availableReplicas"])
            return is_update_done(status)

        await cluster.apply(a_set("2"))
        await cluster.wait_for_status(ends)
        assert least == 2


@pytest.mark.parametrize("edited", ["a", "b"])
async def test_group_replica_unschedulable_before_an_update_does_not_block_it(edited: str) -> None:
    async with build_three_group_replicas() as cluster:
        await delete_pods(cluster, "sys-0-g-2-a")
        await cluster.apply(build_group_set(**{edited: "2"}))
        await cluster.wait_for_status(is_update_done, timeout=300)
        found = [
            each
            for each in await cluster.list_objects(PODS)
            if get_clique_name(each).endswith(edited)
        ]
        assert {get_version(each) for each in found} == {"2"}
        assert (await get_group_status(cluster))["availableReplicas"] == 2


async def test_ru10_only_one_group_replica_loses_its_node_in_an_update() -> None:
    async with build_three_group_replicas() as cluster:
        for node in (await cluster.client.list(NODES)).items:
            patch = {"spec": {"unschedulable": True}}
            await cluster.client.patch(NODES, node["metadata"]["name"], patch)
        for then in ("2", "3"):
            await cluster.apply(build_group_set(a=then))
            await advance_time(120)
            assert (await get_group_status(cluster))["availableReplicas"] == 2
            assert not is_update_done(await cluster.get_status())


def build_group_set(a: str = "1", b: str = "1") -> Any:
    """Three group replicas with minAvailable 1, and a standalone clique."""
    small = pod_template(terminationGracePeriodSeconds=1)
    other = clique("b", pod_spec=small, annotations={"version": b})
    return pod_clique_set(build_big_clique("a", a), other, groups=[group("g", "a", replicas=3)])


@asynccontextmanager
async def build_three_group_replicas() -> AsyncGenerator[WorkloadCluster]:
    async with workload_cluster(fleet=build_fleet(3)) as cluster, running_operator(cluster.cluster):
        await cluster.apply(build_group_set())

        async def are_up() -> bool:
            return (await get_group_status(cluster)).get("availableReplicas") == 3

        await wait_for_condition(are_up)
        await advance_time(5)
        yield cluster


async def get_group_status(cluster: WorkloadCluster) -> Any:
    return ((await cluster.get(SCALING_GROUPS, "sys-0-g")) or {}).get("status", {})


def get_clique_name(pod: Any) -> str:
    return pod["metadata"]["labels"][names.POD_CLIQUE]


async def delete_pods(cluster: WorkloadCluster, clique_name: str) -> str:
    """Delete a pod of a clique and cordon its node; returns the node's name."""
    lost = next(
        each for each in await cluster.list_objects(PODS) if get_clique_name(each) == clique_name
    )
    node = lost["spec"]["nodeName"]
    await cluster.client.patch(NODES, node, {"spec": {"unschedulable": True}})
    await cluster.client.delete(PODS, lost["metadata"]["name"], NAMESPACE)
    await advance_time(20)
    return node
