"""GT: a gang below minAvailable for terminationDelay is restarted, and no more than that."""

from datetime import timedelta
from typing import Any

from kilonova.api.times import parse_time
from tests.workloads.manifests.load import load_set
from tests.workloads.scenarios.support.gang_checks import (
    assert_stable,
    get_clique_name,
    get_conditions,
    wait_until_breached,
    wait_until_gangs_run,
)
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.scenario_cluster import ScenarioCluster, scenario_cluster
from tests.workloads.workload_cluster import CLIQUES, PODS, SCALING_GROUPS

DELAY = timedelta(seconds=1)

Pods = dict[str, Any]
"""By uid."""


async def start_set(cluster: ScenarioCluster, manifest: str) -> Pods:
    """All ten pods of a set, on all the nodes that there are."""
    body = load_set(manifest)
    body["spec"]["template"]["terminationDelay"] = "1s"
    await cluster.apply(body)
    await cluster.wait_until_running(10)
    await cluster.wait_until_settled()
    return await list_pods(cluster)


async def list_pods(cluster: ScenarioCluster) -> Pods:
    return {each["metadata"]["uid"]: each for each in await cluster.list_pods()}


def filter_by_clique(pods: Pods, *prefixes: str) -> Pods:
    """Those of cliques whose names begin so."""
    return {uid: each for uid, each in pods.items() if get_clique_name(each).startswith(prefixes)}


async def cordon_pod_nodes(cluster: ScenarioCluster, pods: Pods) -> None:
    """Cordon the nodes of these pods."""
    for each in pods.values():
        await cluster.cordon(each["spec"]["nodeName"])


async def delete_pods(cluster: ScenarioCluster, *pods: Any) -> None:
    """Delete pods on cordoned nodes."""
    await cordon_pod_nodes(cluster, {each["metadata"]["uid"]: each for each in pods})
    for each in pods:
        await cluster.client.delete(PODS, each["metadata"]["name"], cluster.namespace)


async def wait_until_restarted(cluster: ScenarioCluster, old: Pods) -> None:
    """Wait until all of these pods are gone, and there are ten again."""

    async def condition() -> bool:
        pods = await list_pods(cluster)
        return len(pods) == 10 and not pods.keys() & old.keys()

    await cluster.wait_until(condition)


async def wait_until_terminating(cluster: ScenarioCluster, group: str) -> None:
    """Wait until a group reports GangTerminationInProgress."""

    async def condition() -> bool:
        message = get_conditions(await cluster.get(SCALING_GROUPS, group))
        return message.get("GangTerminationInProgress") == "True"

    await cluster.wait_until(condition)


async def wait_past_delay(cluster: ScenarioCluster, clique: str) -> bool:
    """Whether a breached clique was given terminationDelay before its restart."""
    found = await cluster.get(CLIQUES, clique)
    (since,) = [
        parse_time(each["lastTransitionTime"])
        for each in found["status"]["conditions"]
        if each["type"] == "MinAvailableBreached"
    ]
    created = [
        parse_time(each["metadata"]["creationTimestamp"])
        for each in await cluster.list_pods(clique)
    ]
    return min(created) - since >= DELAY


async def wait_until_recovered(cluster: ScenarioCluster, *gangs: str) -> None:
    """Uncordon all nodes, and wait until everything runs without breach conditions."""
    await cluster.uncordon_nodes(10)
    await cluster.wait_until_running(10)
    await wait_until_gangs_run(cluster, *gangs)

    async def message() -> bool:
        (group,) = await cluster.list_objects(SCALING_GROUPS)
        return "GangTerminationInProgress" not in get_conditions(group)

    await cluster.wait_until(message)


async def test_gt1_breached_standalone_clique_restarts_its_replica(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=10, free_nodes=10) as cluster:
        name = "workload1-gt-0"
        before = await start_set(cluster, "workload1-gt")
        clique = filter_by_clique(before, f"{name}-pc-a")
        await delete_pods(cluster, next(iter(clique.values())))
        await wait_until_restarted(cluster, before)
        # Nine nodes are not enough, and the pending gang is not restarted again.
        restarted = await list_pods(cluster)
        await assert_stable(cluster, running=0, waiting=10)
        assert restarted.keys() == (await list_pods(cluster)).keys()
        assert await wait_past_delay(cluster, f"{name}-pc-a")
        await wait_until_terminating(cluster, f"{name}-sg-x")
        await wait_until_recovered(cluster, name)
        assert restarted.keys() == (await list_pods(cluster)).keys()


async def test_gt2_breached_group_member_restarts_its_replica(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=10, free_nodes=10) as cluster:
        name = "workload1-gt-0"
        before = await start_set(cluster, "workload1-gt")
        member = filter_by_clique(before, f"{name}-sg-x-0-pc-c")
        await delete_pods(cluster, next(iter(member.values())))
        await wait_until_restarted(cluster, before)
        await assert_stable(cluster, running=0, waiting=10)
        assert await wait_past_delay(cluster, f"{name}-sg-x-0-pc-c")
        await wait_until_terminating(cluster, f"{name}-sg-x")
        await wait_until_recovered(cluster, name)


async def test_gt3_a_spare_pod_may_be_lost_and_the_last_one_not(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=10, free_nodes=10) as cluster:
        name = "workload2-gt-0"
        before = await start_set(cluster, "workload2-gt")
        first, second = filter_by_clique(before, f"{name}-pc-a").values()
        await delete_pods(cluster, first)
        await assert_stable(cluster, running=9, waiting=1)
        after = await list_pods(cluster)
        assert before.keys() - after.keys() == {first["metadata"]["uid"]}
        await wait_until_breached(cluster, f"{name}-pc-a", "False")
        await delete_pods(cluster, second)
        await wait_until_breached(cluster, f"{name}-pc-a")
        await wait_until_restarted(cluster, after)
        await wait_until_recovered(cluster, name, f"{name}-sg-x-0")


async def test_gt4_one_lost_replica_of_a_group_is_restarted_alone_and_the_last_is_not(
    api: ScenarioApi,
) -> None:
    async with scenario_cluster(api, nodes=10, free_nodes=10) as cluster:
        name = "workload2-gt-0"
        before = await start_set(cluster, "workload2-gt")
        lost = filter_by_clique(before, f"{name}-sg-x-0-")
        kept = before.keys() - lost.keys()
        await cordon_pod_nodes(cluster, lost)
        await delete_pods(cluster, *filter_by_clique(lost, f"{name}-sg-x-0-pc-b").values())
        await wait_until_restarted(cluster, lost)
        await assert_stable(cluster, running=6, waiting=4)
        after = await list_pods(cluster)
        assert kept < after.keys()
        group = await cluster.get(SCALING_GROUPS, f"{name}-sg-x")
        assert "GangTerminationInProgress" not in get_conditions(group)
        await delete_pods(cluster, *filter_by_clique(before, f"{name}-sg-x-1-").values())
        await wait_until_restarted(cluster, after)
        await wait_until_terminating(cluster, f"{name}-sg-x")
        await wait_until_recovered(cluster, name, f"{name}-sg-x-0")


async def test_gt5_breached_group_member_restarts_its_group_replica(
    api: ScenarioApi,
) -> None:
    async with scenario_cluster(api, nodes=10, free_nodes=10) as cluster:
        name = "workload5-gt-0"
        before = await start_set(cluster, "workload5-gt")
        lost = filter_by_clique(before, f"{name}-sg-x-1-")
        member = filter_by_clique(lost, f"{name}-sg-x-1-pc-c")
        await delete_pods(cluster, next(iter(member.values())))
        await wait_until_restarted(cluster, lost)
        await assert_stable(cluster, running=6, waiting=4)
        assert before.keys() - (await list_pods(cluster)).keys() == lost.keys()
        assert await wait_past_delay(cluster, f"{name}-sg-x-1-pc-c")
        await wait_until_recovered(cluster, name, f"{name}-sg-x-0")
        assert before.keys() - (await list_pods(cluster)).keys() == lost.keys()


async def test_gt6_deleted_pod_of_a_scaled_gang_is_only_recreated(api: ScenarioApi) -> None:
    async with scenario_cluster(api, nodes=10, free_nodes=10) as cluster:
        name = "workload2-gt-0"
        before = await start_set(cluster, "workload2-gt")
        pod = next(iter(filter_by_clique(before, f"{name}-sg-x-1-pc-c").values()))
        await cluster.client.delete(PODS, pod["metadata"]["name"], cluster.namespace)
        await wait_until_restarted(cluster, {pod["metadata"]["uid"]: pod})
        await wait_until_recovered(cluster, name, f"{name}-sg-x-0")
        await cluster.wait_until_settled()
        assert before.keys() - (await list_pods(cluster)).keys() == {pod["metadata"]["uid"]}
