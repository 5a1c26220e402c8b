"""Mistakes of users, and how the operator handles them."""

from typing import Any

import pytest

from kilonova.api.grove import names
from kilonova.api.grove.podcliqueset import IN_ORDER
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

SPEC = pod_template(terminationGracePeriodSeconds=1)


async def start_set(cluster: WorkloadCluster, set_: Any) -> None:
    """Apply a set, and wait until it is available."""
    await cluster.apply(set_)
    await cluster.wait_for_status(lambda status: status.get("availableReplicas") == 1)
    await advance_time(5)


async def test_template_cannot_set_the_incarnation() -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        template = clique("front", pod_spec=SPEC, annotations={names.INCARNATION: "5"})
        await start_set(cluster, pod_clique_set(template, termination_delay="10s"))
        for node in (await cluster.client.list(NODES)).items:
            patch = {"spec": {"unschedulable": True}}
            await cluster.client.patch(NODES, node["metadata"]["name"], patch)
        (pod,) = await cluster.list_names(PODS)
        await cluster.client.delete(PODS, pod, NAMESPACE)

        async def is_anew() -> bool:
            found = (await cluster.get(CLIQUES, "sys-0-front"))["metadata"]
            return found.get("annotations") == {names.INCARNATION: "1"}

        await wait_for_condition(is_anew)
        version = (await cluster.get(CLIQUES, "sys-0-front"))["metadata"]["generation"]
        await advance_time(60)
        assert await is_anew()
        assert (await cluster.get(CLIQUES, "sys-0-front"))["metadata"]["generation"] == version


@pytest.mark.parametrize("label", [names.POD_CLIQUE, names.MANAGED_BY])
async def test_removed_selector_label_of_a_pod_is_restored(label: str) -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        await start_set(cluster, pod_clique_set(clique("front", 2, pod_spec=SPEC)))
        before = await cluster.list_objects(PODS)
        name = before[0]["metadata"]["name"]
        await cluster.client.patch(PODS, name, {"metadata": {"labels": {label: None}}}, NAMESPACE)

        async def is_as_before() -> bool:
            labels = (await cluster.get(PODS, name))["metadata"]["labels"]
            return labels == before[0]["metadata"]["labels"]

        await wait_for_condition(is_as_before)
        await cluster.wait_for_status(lambda status: status.get("availableReplicas") == 1)
        await advance_time(5)
        assert [each["metadata"]["uid"] for each in await cluster.list_objects(PODS)] == [
            each["metadata"]["uid"] for each in before
        ]


async def test_dependencies_below_the_group_scale_are_not_awaited() -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        cliques = clique("hand", pod_spec=SPEC), clique("front", pod_spec=SPEC)
        team = group("team", "hand", replicas=1)
        await start_set(cluster, pod_clique_set(*cliques, groups=[team], startup=IN_ORDER))
        for replicas in (0, 1):
            await cluster.client.set_scale(SCALING_GROUPS, "sys-0-team", NAMESPACE, replicas)
            await advance_time(5)
            before = await get_front_pod(cluster)
            await cluster.client.delete(PODS, before["metadata"]["name"], NAMESPACE)
            await wait_until_front_replaced(cluster, before)


async def test_waiting_pods_continue_when_the_group_is_scaled() -> None:
    async with workload_cluster() as cluster, running_operator(cluster.cluster):
        stuck = pod_template(schedulingGates=[{"name": "mine"}])
        cliques = clique("hand", pod_spec=stuck), clique("front", pod_spec=SPEC)
        team = group("team", "hand", replicas=1)
        await cluster.apply(pod_clique_set(*cliques, groups=[team], startup=IN_ORDER))
        await advance_time(20)
        waiting = await get_front_pod(cluster)
        assert names.STARTUP_RELEASED not in waiting["metadata"].get("annotations", {})
        await cluster.client.set_scale(SCALING_GROUPS, "sys-0-team", NAMESPACE, 0)

        async def released() -> bool:
            return names.STARTUP_RELEASED in (await get_front_pod(cluster))["metadata"].get(
                "annotations", {}
            )

        await wait_for_condition(released)


async def get_front_pod(cluster: WorkloadCluster) -> Any:
    """The pod of the clique that starts last."""
    pods = await cluster.list_objects(PODS)
    (found,) = [each for each in pods if not each["metadata"]["name"].startswith("sys-0-team")]
    return found


async def wait_until_front_replaced(cluster: WorkloadCluster, before: Any) -> None:
    """Wait until another pod than before is ready."""

    async def is_new() -> bool:
        pods = [
            each for each in await cluster.list_objects(PODS) if "front" in each["metadata"]["name"]
        ]
        ready = [
            each["metadata"]["uid"]
            for each in pods
            for condition in each["status"].get("conditions", ())
            if (condition["type"], condition["status"]) == ("Ready", "True")
        ]
        return bool(ready) and before["metadata"]["uid"] not in ready

    await wait_for_condition(is_new)
