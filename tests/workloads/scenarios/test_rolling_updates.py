"""RU: outdated pods are replaced one by one, units of groups and replicas of sets likewise.

Scenario numbers are those of the specification. The set is ten pods: `pc-a` with two, and two units
of `sg-x` with one `pc-b` and three `pc-c` each.
"""

from typing import Any

from kilonova.kube import Resource
from tests.conftest import Api
from tests.workloads.ground import CLIQUES, GROUPS
from tests.workloads.scenarios.chronicle import Seen
from tests.workloads.scenarios.updating import (
    ALL,
    NEW,
    OLD,
    Stage,
    by_clique,
    by_replica,
    by_unit,
    least_ready,
    most_missing,
    order,
    running_set,
)

SET = "workload1"


def grouped(pod: Seen) -> bool:
    return pod.unit is not None


async def test_ru7_pods_of_a_clique_are_replaced_one_by_one_replica_by_replica(api: Api) -> None:
    async with running_set(api, SET, 20, replicas=2) as stage:
        await stage.edit(NEW, "pc-a")
        status = await stage.until_updated(2)
        story = stage.story
        assert order(story.deleted, by_clique) == [f"{SET}-0-pc-a", f"{SET}-1-pc-a"]
        assert len(story.deleted) == len(story.born) == 4
        assert least_ready(story.moments, f"{SET}-0-pc-a") == 1
        assert least_ready(story.moments, f"{SET}-1-pc-a") == 1
        assert most_missing(story.moments, 10, by_replica) == 1
        progress = status["updateProgress"]
        assert progress["updatedPodCliquesCount"] == progress["totalPodCliquesCount"] == 2


async def test_ru8_units_of_a_group_are_replaced_one_by_one_replica_by_replica(api: Api) -> None:
    async with running_set(api, SET, 20, replicas=2) as stage:
        await stage.edit(NEW, "pc-b")
        await stage.until_updated(2)
        story = stage.story
        assert order(story.deleted, by_unit) == [(0, 0), (0, 1), (1, 0), (1, 1)]
        assert len(story.deleted) == len(story.born) == 16
        assert most_missing(story.moments, 4, by_unit, grouped) == 1
        assert all(each.image == NEW for each in story.now if each.clique.endswith("pc-b"))


async def test_ru9_all_at_once_still_goes_one_by_one_at_each_level(api: Api) -> None:
    async with running_set(api, SET, 20, replicas=2) as stage:
        await stage.edit(NEW, *ALL)
        status = await stage.until_updated(2)
        story = stage.story
        assert order(story.deleted, by_replica) == [0, 1]
        assert most_missing(story.moments, 10, by_replica) == 1
        assert most_missing(story.moments, 4, by_unit, grouped) == 1
        assert least_ready(story.moments, f"{SET}-0-pc-a") == 1
        assert len(story.deleted) == len(story.born) == 20
        assert story.images() == {NEW}
        progress = status["updateProgress"]
        assert progress["updatedPodCliqueScalingGroupsCount"] == 2


async def test_ru10_without_a_node_exactly_one_pod_goes_until_there_is_one_again(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        await stall_with_one_pod_gone(stage)
        assert len(stage.story.deleted) == 1
        assert least_ready(stage.story.moments, f"{SET}-0-pc-a") == 1
        await stage.go_on()
        await stage.until_updated(1)
        assert len(stage.story.deleted) == 2
        assert stage.story.images(f"{SET}-0-pc-a") == {NEW}


async def stall_with_one_pod_gone(stage: Stage) -> None:
    """Begin an update of `pc-a` that can not go on."""
    await stage.stall()
    await stage.edit(NEW, "pc-a")
    await until_stuck(stage)


async def until_stuck(stage: Stage) -> None:
    story = stage.story
    await story.until(lambda: any(each.image == NEW and not each.placed for each in story.now))
    await stage.world.until_settled()


async def test_ru11_replica_added_in_an_update_is_new_from_birth(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        await stall_with_one_pod_gone(stage)
        await stage.scale(2)
        await stage.story.until(lambda: len(stage.story.of(f"{SET}-1-pc-a")) == 2)
        await stage.go_on()
        await stage.until_updated(2)
        await stage.story.until_ready(20)
        assert {each.replica for each in stage.story.deleted} == {0}
        born = [each for each in stage.story.born if each.replica == 1]
        assert len(born) == 10
        assert {each.image for each in born if each.unit is None} == {NEW}


async def test_ru12_replicas_taken_away_in_an_update_do_not_hold_it_up(api: Api) -> None:
    async with running_set(api, SET, 20, replicas=2) as stage:
        await stage.stall()
        await stage.edit(NEW, *ALL)
        await until_stuck(stage)
        assert (await turns(stage)) == [0]
        await stage.scale(1)
        await stage.go_on()
        await stage.until_updated(1)
        await stage.story.until_ready(10, NEW)
        assert {each.replica for each in stage.story.born} == {0}


async def test_ru13_replica_taken_away_when_its_turn_has_come_ends_the_update(api: Api) -> None:
    async with running_set(api, SET, 20, replicas=2) as stage:
        await stage.edit(NEW, *ALL)
        story = stage.story
        await story.until(lambda: any(each.replica == 1 for each in story.deleted))
        await stage.scale(1)
        await stage.until_updated(1)
        await story.until_ready(10, NEW)
        assert len([each for each in story.born if each.replica == 0]) == 10


async def turns(stage: Stage) -> list[int]:
    """Which replicas are being updated."""
    progress = (await stage.status())["updateProgress"]
    return [each["replicaIndex"] for each in progress["currentlyUpdating"]]


GROUP = f"{SET}-0-sg-x"


async def test_ru14_unit_added_in_an_update_is_new_from_birth(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        await stage.stall()
        await stage.edit(NEW, "pc-b", "pc-c")
        await until_stuck(stage)
        await stage.world.scale(GROUPS, GROUP, 3)
        await stage.story.until(lambda: len(stage.story.of(f"{GROUP}-2-pc-c")) == 3)
        await stage.go_on()
        await stage.until_updated(1)
        await stage.story.until_ready(14)
        assert order(stage.story.deleted, by_unit) == [(0, 0), (0, 1)]
        added = [each for each in stage.story.born if each.unit == 2]
        assert [each.image for each in added] == [NEW] * 4
        assert len(stage.story.born) == 12


async def test_ru15_unit_added_before_an_update_is_updated_once(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        await stage.world.scale(GROUPS, GROUP, 3)
        await stage.story.until_ready(14)
        stage.story.begin()
        await stage.edit(NEW, "pc-b", "pc-c")
        await stage.until_updated(1)
        assert order(stage.story.deleted, by_unit) == [(0, 0), (0, 1), (0, 2)]
        assert most_missing(stage.story.moments, 4, by_unit, grouped) == 1
        assert len(stage.story.deleted) == len(stage.story.born) == 12
        assert await replicas_of(stage, GROUPS, GROUP) == 3


async def replicas_of(stage: Stage, resource: Resource[Any], name: str) -> int:
    return (await stage.world.get(resource, name))["spec"]["replicas"]


async def test_ru16_unit_taken_away_in_an_update_is_not_made_again(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        await stage.world.scale(GROUPS, GROUP, 3)
        await stage.story.until_ready(14)
        stage.story.begin()
        await stage.stall()
        await stage.edit(NEW, "pc-b", "pc-c")
        await until_stuck(stage)
        await stage.world.scale(GROUPS, GROUP, 2)
        await stage.story.until(lambda: not any(each.unit == 2 for each in stage.story.now))
        await stage.go_on()
        await stage.until_updated(1)
        await stage.story.until_ready(10)
        assert order(stage.story.deleted, by_unit) == [(0, 0), (0, 2), (0, 1)]
        assert len(stage.story.born) == 8


async def test_ru17_unit_taken_away_before_an_update_is_not_made_again(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        await stage.world.scale(GROUPS, GROUP, 3)
        await stage.story.until_ready(14)
        await stage.world.scale(GROUPS, GROUP, 2)
        await stage.story.until_ready(10)
        stage.story.begin()
        await stage.edit(NEW, "pc-b", "pc-c")
        await stage.until_updated(1)
        assert order(stage.story.deleted, by_unit) == [(0, 0), (0, 1)]
        assert most_missing(stage.story.moments, 4, by_unit, grouped) == 1
        assert len(stage.story.born) == 8


CLIQUE = f"{SET}-0-pc-a"


async def test_ru18_pod_added_in_an_update_is_new_from_birth(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        await stall_with_one_pod_gone(stage)
        await stage.world.scale(CLIQUES, CLIQUE, 4)
        await stage.story.until(lambda: len(stage.story.of(CLIQUE)) == 4)
        await stage.go_on()
        await stage.until_updated(1)
        await stage.story.until_ready(12)
        assert [each.image for each in stage.story.born] == [NEW] * 4
        assert [each.image for each in stage.story.deleted] == [OLD] * 2


async def test_ru19_pod_added_before_an_update_is_updated_once(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        await stage.world.scale(CLIQUES, CLIQUE, 4)
        await stage.story.until_ready(12)
        stage.story.begin()
        await stage.edit(NEW, "pc-a")
        await stage.until_updated(1)
        assert least_ready(stage.story.moments, CLIQUE) == 3
        assert len(stage.story.deleted) == len(stage.story.born) == 4
        assert await replicas_of(stage, CLIQUES, CLIQUE) == 4


async def test_ru20_clique_scaled_in_in_an_update_ends_with_new_pods_alone(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        await stage.world.scale(CLIQUES, CLIQUE, 4)
        await stage.story.until_ready(12)
        stage.story.begin()
        await stall_with_one_pod_gone(stage)
        await stage.world.scale(CLIQUES, CLIQUE, 2)
        await stage.story.until(lambda: len(stage.story.of(CLIQUE)) == 2)
        await stage.go_on()
        await stage.until_updated(1)
        await stage.story.until_ready(10)
        assert stage.story.images(CLIQUE) == {NEW}
        assert least_ready(stage.story.moments, CLIQUE) == 1


async def test_ru21_clique_scaled_in_before_an_update_keeps_its_size(api: Api) -> None:
    async with running_set(api, SET, 10) as stage:
        await stage.world.scale(CLIQUES, CLIQUE, 4)
        await stage.story.until_ready(12)
        await stage.world.scale(CLIQUES, CLIQUE, 2)
        await stage.story.until_ready(10)
        stage.story.begin()
        await stage.edit(NEW, "pc-a")
        await stage.until_updated(1)
        assert least_ready(stage.story.moments, CLIQUE) == 1
        assert len(stage.story.deleted) == len(stage.story.born) == 2
        assert stage.story.images(CLIQUE) == {NEW}
