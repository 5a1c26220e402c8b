"""OD: with OnDelete, pods are replaced only after users delete them.

Scenario numbers are those of the specification. The set has ten pods: two of `pc-a`, of which one
is required, and two replicas of `sg-x` with one `pc-b` and three `pc-c` each.
"""

from collections import Counter
from typing import Any

from kilonova.api.grove import names
from tests.workloads.scenarios.support.scenario_api import ScenarioApi
from tests.workloads.scenarios.support.set_updates import (
    ALL_CLIQUES,
    NEW,
    NEWER,
    OLD,
    UpdateScenario,
    list_deletion_order,
    running_set,
)
from tests.workloads.workload_cluster import CLIQUES, PODS, SETS

SET = "workload-ondelete"
CLIQUE = f"{SET}-0-pc-a"
GROUP_REPLICA = f"{SET}-0-sg-x-0"


async def wait_until_reported(scenario: UpdateScenario, *cliques: str) -> Any:
    """Wait until cliques have the set's template of now, and nothing more happens; its status."""

    async def condition() -> bool:
        found = await scenario.cluster.get(SETS, scenario.name)
        if found["status"].get("observedGeneration") != found["metadata"]["generation"]:
            return False
        hash_ = found["status"]["currentGenerationHash"]
        live = [await scenario.cluster.get(CLIQUES, each) for each in cliques]
        return all(each["metadata"]["labels"][names.GENERATION_HASH] == hash_ for each in live)

    await scenario.cluster.wait_until(condition)
    await scenario.cluster.wait_until_settled()
    return await scenario.get_status()


async def edit_and_assert_unchanged(scenario: UpdateScenario, *cliques: str) -> Any:
    """Change cliques of the set; its status when that is known everywhere."""
    uids = {each.uid for each in scenario.history.current}
    everywhere = [each["metadata"]["name"] for each in await scenario.cluster.list_objects(CLIQUES)]
    await scenario.edit_image(NEW, *cliques)
    status = await wait_until_reported(scenario, *everywhere)
    assert scenario.history.deleted == []
    assert {each.uid for each in scenario.history.current} == uids
    progress = status["updateProgress"]
    assert progress["updateEndedAt"] == progress["updateStartedAt"]
    assert not progress.get("currentlyUpdating")
    return status


async def delete_pods(scenario: UpdateScenario, *pods: str) -> None:
    """Delete pods and wait for those that come instead."""
    created_pods = len(scenario.history.created) + len(pods)
    count = len(scenario.history.current)
    for each in pods:
        await scenario.cluster.client.delete(PODS, each, scenario.cluster.namespace)
    await scenario.history.wait_until(lambda: len(scenario.history.created) == created_pods)
    await scenario.history.wait_until_ready(count)


async def test_od1_no_pod_of_a_clique_is_deleted(api: ScenarioApi) -> None:
    async with running_set(api, SET, 10) as scenario:
        status = await edit_and_assert_unchanged(scenario, "pc-a")
        assert status["updatedReplicas"] == 0
        template = (await scenario.cluster.get(CLIQUES, CLIQUE))["spec"]["podSpec"]
        assert template["containers"][0]["image"] == NEW


async def test_od2_deleted_pod_of_a_clique_is_recreated_updated(api: ScenarioApi) -> None:
    async with running_set(api, SET, 10) as scenario:
        await edit_and_assert_unchanged(scenario, "pc-a")
        await delete_pods(scenario, scenario.history.list_pods(CLIQUE)[0].name)
        assert sorted(each.image for each in scenario.history.list_pods(CLIQUE)) == [OLD, NEW]
        await delete_pods(
            scenario,
            *(each.name for each in scenario.history.list_pods(CLIQUE) if each.image == OLD),
        )
        status = await scenario.wait_until_updated(1)
        assert scenario.history.list_images(CLIQUE) == {NEW}
        assert len(scenario.history.deleted) == 2
        assert status["updateProgress"]["updatedPodCliquesCount"] == 1


async def test_od3_scale_in_takes_the_outdated_pod_first(api: ScenarioApi) -> None:
    async with running_set(api, SET, 10) as scenario:
        await edit_and_assert_unchanged(scenario, "pc-a")
        first, second = sorted(each.name for each in scenario.history.list_pods(CLIQUE))
        await delete_pods(scenario, second)
        await scenario.cluster.scale(CLIQUES, CLIQUE, 1)
        await scenario.history.wait_until_ready(9)
        assert [each.name for each in scenario.history.deleted] == [second, first]
        assert scenario.history.list_images(CLIQUE) == {NEW}


async def test_od4_no_pod_of_a_group_is_deleted(api: ScenarioApi) -> None:
    async with running_set(api, SET, 10) as scenario:
        status = await edit_and_assert_unchanged(scenario, "pc-b", "pc-c")
        assert status["updatedReplicas"] == 0
        assert status["updateProgress"]["updatedPodCliqueScalingGroupsCount"] == 0


async def test_od5_deleted_pod_of_a_group_is_recreated_updated_alone(api: ScenarioApi) -> None:
    async with running_set(api, SET, 10) as scenario:
        await edit_and_assert_unchanged(scenario, "pc-b", "pc-c")
        victim = scenario.history.list_pods(f"{GROUP_REPLICA}-pc-c")[0]
        await delete_pods(scenario, victim.name)
        await scenario.cluster.wait_until_settled()
        assert [each.uid for each in scenario.history.deleted] == [victim.uid]
        assert Counter(
            each.image for each in scenario.history.list_pods(f"{GROUP_REPLICA}-pc-c")
        ) == {
            OLD: 2,
            NEW: 1,
        }
        assert scenario.history.list_images(f"{GROUP_REPLICA}-pc-b") == {OLD}


async def test_od6_deleted_clique_of_a_group_is_recreated_updated_alone(api: ScenarioApi) -> None:
    async with running_set(api, SET, 10) as scenario:
        await edit_and_assert_unchanged(scenario, "pc-b", "pc-c")
        await scenario.cluster.client.delete(
            CLIQUES, f"{GROUP_REPLICA}-pc-c", scenario.cluster.namespace
        )
        await scenario.history.wait_until(lambda: len(scenario.history.created) == 3)
        await scenario.history.wait_until_ready(10)
        await scenario.cluster.wait_until_settled()
        assert {each.clique for each in scenario.history.deleted} == {f"{GROUP_REPLICA}-pc-c"}
        assert scenario.history.list_images(f"{GROUP_REPLICA}-pc-c") == {NEW}
        assert scenario.history.list_images(f"{GROUP_REPLICA}-pc-b") == {OLD}


async def test_od7_no_pod_of_two_replicas_is_deleted(api: ScenarioApi) -> None:
    async with running_set(api, SET, 20, replicas=2) as scenario:
        await edit_and_assert_unchanged(scenario, *ALL_CLIQUES)
        await delete_pods(
            scenario, *(each.name for each in scenario.history.current if each.replica == 1)
        )

        async def message() -> bool:
            return (await scenario.get_status())["updatedReplicas"] == 1

        await scenario.cluster.wait_until(message)
        assert {each.replica for each in scenario.history.deleted} == {1}
        assert {each.image for each in scenario.history.current if each.replica == 0} == {OLD}


async def test_od8_pods_of_a_bad_node_are_moved_away_and_no_others(api: ScenarioApi) -> None:
    async with running_set(api, SET, 10) as scenario:
        pods = await scenario.cluster.list_pods()
        bad = pods[0]["spec"]["nodeName"]
        there = [each["metadata"]["name"] for each in pods if each["spec"]["nodeName"] == bad]
        await scenario.cluster.cordon(bad)
        await cordon_node(scenario, bad)
        await wait_until_reported(scenario, CLIQUE)
        assert scenario.history.deleted == []
        await delete_pods(scenario, *there)
        assert sorted(each.name for each in scenario.history.deleted) == sorted(there)
        created_pods = {each.uid for each in scenario.history.created}
        for pod in await scenario.cluster.list_pods():
            assert pod["spec"]["nodeName"] != bad
            assert ("affinity" in pod["spec"]) == (pod["metadata"]["uid"] in created_pods)


async def cordon_node(scenario: UpdateScenario, node: str) -> None:
    """Ask in all templates for any node but one."""
    elsewhere = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [elsewhere]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    templates = (await scenario.cluster.get(SETS, SET))["spec"]["template"]["cliques"]
    for each in templates:
        each["spec"]["podSpec"]["affinity"] = affinity
    body = {"spec": {"template": {"cliques": templates}}}
    await scenario.cluster.client.patch(SETS, SET, body, scenario.cluster.namespace)


async def test_od9_outdated_pods_roll_when_the_strategy_changes_and_stop_when_it_changes_back(
    api: ScenarioApi,
) -> None:
    async with running_set(api, SET, 10) as scenario:
        await edit_and_assert_unchanged(scenario, *ALL_CLIQUES)
        await scenario.use_strategy(type="RollingRecreate")
        await scenario.wait_until_updated(1)
        groups = [each for each in scenario.history.deleted if each.group_replica is not None]
        assert list_deletion_order(groups, lambda each: each.group_replica) == [0, 1]
        assert len(scenario.history.deleted) == len(scenario.history.created) == 10
        await scenario.use_strategy(type="OnDelete")
        scenario.history.reset()
        await scenario.edit_image(NEWER, "pc-a")
        await wait_until_reported(scenario, CLIQUE)
        assert scenario.history.deleted == []
        assert scenario.history.list_images(CLIQUE) == {NEW}
