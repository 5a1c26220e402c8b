"""OD: with OnDelete, pods are replaced when somebody deletes them, and not before.

Scenario numbers are those of the specification. The set is ten pods: `pc-a` with two, of which one
is needed, and two units of `sg-x` with one `pc-b` and three `pc-c` each.
"""

from collections import Counter
from typing import Any

from kilonova.api.grove import names
from tests.conftest import Api
from tests.workloads.ground import CLIQUES, PODS, SETS
from tests.workloads.scenarios.updating import ALL, NEW, NEWER, OLD, Stage, order, running_set

SET = "workload-ondelete"
CLIQUE = f"{SET}-0-pc-a"
UNIT = f"{SET}-0-sg-x-0"


async def until_told(stage: Stage, *cliques: str) -> Any:
    """Wait until cliques have the set's template of now, and nothing more happens; its status."""

    async def so() -> bool:
        found = await stage.world.get(SETS, stage.name)
        if found["status"].get("observedGeneration") != found["metadata"]["generation"]:
            return False
        hash_ = found["status"]["currentGenerationHash"]
        live = [await stage.world.get(CLIQUES, each) for each in cliques]
        return all(each["metadata"]["labels"][names.GENERATION_HASH] == hash_ for each in live)

    await stage.world.until(so)
    await stage.world.until_settled()
    return await stage.status()


async def edit_and_see_nothing_go(stage: Stage, *cliques: str) -> Any:
    """Change cliques of the set; its status when that is known everywhere."""
    uids = {each.uid for each in stage.story.now}
    everywhere = [each["metadata"]["name"] for each in await stage.world.all(CLIQUES)]
    await stage.edit(NEW, *cliques)
    status = await until_told(stage, *everywhere)
    assert stage.story.deleted == []
    assert {each.uid for each in stage.story.now} == uids
    progress = status["updateProgress"]
    assert progress["updateEndedAt"] == progress["updateStartedAt"]
    assert not progress.get("currentlyUpdating")
    return status


async def delete(stage: Stage, *pods: str) -> None:
    """Delete pods and wait for those that come instead."""
    born = len(stage.story.born) + len(pods)
    count = len(stage.story.now)
    for each in pods:
        await stage.world.client.delete(PODS, each, stage.world.namespace)
    await stage.story.until(lambda: len(stage.story.born) == born)
    await stage.story.until_ready(count)


async def test_od1_no_pod_of_a_clique_goes(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        status = await edit_and_see_nothing_go(stage, "pc-a")
        assert status["updatedReplicas"] == 0
        template = (await stage.world.get(CLIQUES, CLIQUE))["spec"]["podSpec"]
        assert template["containers"][0]["image"] == NEW


async def test_od2_deleted_pod_of_a_clique_comes_back_new(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        await edit_and_see_nothing_go(stage, "pc-a")
        await delete(stage, stage.story.of(CLIQUE)[0].name)
        assert sorted(each.image for each in stage.story.of(CLIQUE)) == [OLD, NEW]
        await delete(stage, *(each.name for each in stage.story.of(CLIQUE) if each.image == OLD))
        status = await stage.until_updated(1)
        assert stage.story.images(CLIQUE) == {NEW}
        assert len(stage.story.deleted) == 2
        assert status["updateProgress"]["updatedPodCliquesCount"] == 1


async def test_od3_scale_in_takes_the_outdated_pod_first(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        await edit_and_see_nothing_go(stage, "pc-a")
        first, second = sorted(each.name for each in stage.story.of(CLIQUE))
        await delete(stage, second)
        await stage.world.scale(CLIQUES, CLIQUE, 1)
        await stage.story.until_ready(9)
        assert [each.name for each in stage.story.deleted] == [second, first]
        assert stage.story.images(CLIQUE) == {NEW}


async def test_od4_no_pod_of_a_group_goes(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        status = await edit_and_see_nothing_go(stage, "pc-b", "pc-c")
        assert status["updatedReplicas"] == 0
        assert status["updateProgress"]["updatedPodCliqueScalingGroupsCount"] == 0


async def test_od5_deleted_pod_of_a_group_comes_back_new_and_alone(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        await edit_and_see_nothing_go(stage, "pc-b", "pc-c")
        victim = stage.story.of(f"{UNIT}-pc-c")[0]
        await delete(stage, victim.name)
        await stage.world.until_settled()
        assert [each.uid for each in stage.story.deleted] == [victim.uid]
        assert Counter(each.image for each in stage.story.of(f"{UNIT}-pc-c")) == {OLD: 2, NEW: 1}
        assert stage.story.images(f"{UNIT}-pc-b") == {OLD}


async def test_od6_deleted_clique_of_a_group_comes_back_new_and_alone(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        await edit_and_see_nothing_go(stage, "pc-b", "pc-c")
        await stage.world.client.delete(CLIQUES, f"{UNIT}-pc-c", stage.world.namespace)
        await stage.story.until(lambda: len(stage.story.born) == 3)
        await stage.story.until_ready(10)
        await stage.world.until_settled()
        assert {each.clique for each in stage.story.deleted} == {f"{UNIT}-pc-c"}
        assert stage.story.images(f"{UNIT}-pc-c") == {NEW}
        assert stage.story.images(f"{UNIT}-pc-b") == {OLD}


async def test_od7_no_pod_of_two_replicas_goes(api: Api) -> None:
    async with running_set(api, SET, 20, replicas=2) as stage:
        await edit_and_see_nothing_go(stage, *ALL)
        await delete(stage, *(each.name for each in stage.story.now if each.replica == 1))

        async def told() -> bool:
            return (await stage.status())["updatedReplicas"] == 1

        await stage.world.until(told)
        assert {each.replica for each in stage.story.deleted} == {1}
        assert {each.image for each in stage.story.now if each.replica == 0} == {OLD}


async def test_od8_pods_of_a_bad_node_are_moved_away_and_no_others(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        pods = await stage.world.pods()
        bad = pods[0]["spec"]["nodeName"]
        there = [each["metadata"]["name"] for each in pods if each["spec"]["nodeName"] == bad]
        await stage.world.cordon(bad)
        await avoid(stage, bad)
        await until_told(stage, CLIQUE)
        assert stage.story.deleted == []
        await delete(stage, *there)
        assert sorted(each.name for each in stage.story.deleted) == sorted(there)
        born = {each.uid for each in stage.story.born}
        for pod in await stage.world.pods():
            assert pod["spec"]["nodeName"] != bad
            assert ("affinity" in pod["spec"]) == (pod["metadata"]["uid"] in born)


async def avoid(stage: Stage, node: str) -> None:
    """Ask in all templates for any node but one."""
    elsewhere = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [elsewhere]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    templates = (await stage.world.get(SETS, SET))["spec"]["template"]["cliques"]
    for each in templates:
        each["spec"]["podSpec"]["affinity"] = affinity
    body = {"spec": {"template": {"cliques": templates}}}
    await stage.world.client.patch(SETS, SET, body, stage.world.namespace)


async def test_od9_what_was_left_rolls_when_the_strategy_changes_and_rests_when_it_changes_back(
    api: Api,
) -> None:
    async with running_set(api, SET, 10) as stage:
        await edit_and_see_nothing_go(stage, *ALL)
        await stage.use_strategy(type="RollingRecreate")
        await stage.until_updated(1)
        groups = [each for each in stage.story.deleted if each.unit is not None]
        assert order(groups, lambda each: each.unit) == [0, 1]
        assert len(stage.story.deleted) == len(stage.story.born) == 10
        await stage.use_strategy(type="OnDelete")
        stage.story.begin()
        await stage.edit(NEWER, "pc-a")
        await until_told(stage, CLIQUE)
        assert stage.story.deleted == []
        assert stage.story.images(CLIQUE) == {NEW}
