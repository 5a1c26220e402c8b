"""How fast updates go: what may be missing, what may be too much, and what must not be mixed."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tests.conftest import Api
from tests.workloads.scenarios.chronicle import Moment
from tests.workloads.scenarios.updating import (
    ALL,
    NEW,
    NEWER,
    OLD,
    Stage,
    by_replica,
    by_unit,
    least_ready,
    most_missing,
    order,
    running_set,
)

SET = "workload1"
CLIQUE = f"{SET}-0-pc-a"
NO_GAP = {"maxSurge": 1, "maxUnavailable": 0}


def only_pc_a(pods: int, least: int, **rolling: Any) -> Callable[[Any], None]:
    """Make a set's only clique `pc-a`; `rolling` says how fast it is updated."""

    def change(body: Any) -> None:
        template = body["spec"]["template"]
        del template["podCliqueScalingGroups"]
        clique, *_ = template["cliques"]
        clique["spec"] |= {"replicas": pods, "minAvailable": least}
        if rolling:
            clique["spec"]["rollingUpdate"] = rolling
        template["cliques"] = [clique]

    return change


def strategy(**rolling: Any) -> dict[str, Any]:
    return {"updateStrategy": {"type": "RollingRecreate", "rollingUpdate": rolling}}


def least_whole(moments: Iterable[Moment], pods: int) -> int:
    """How few replicas of a set had so many ready pods, at worst."""
    counts = (Counter(each.replica for each in moment if each.ready) for moment in moments)
    return min(sum(count >= pods for count in each.values()) for each in counts)


async def test_set_with_max_unavailable_updates_so_many_replicas_together(api: Api) -> None:
    spec: dict[str, Any] = {"replicas": 4, **strategy(maxUnavailable="50%")}
    async with running_set(api, SET, 4, change=only_pc_a(1, 1), **spec) as stage:
        await stage.edit(NEW, "pc-a")
        await stage.until_updated(4)
        assert most_missing(stage.story.moments, 1, by_replica) == 2
        assert len(stage.story.deleted) == len(stage.story.born) == 4


async def test_set_with_surge_never_lacks_a_replica(api: Api) -> None:
    spec: dict[str, Any] = {"replicas": 2, **strategy(**NO_GAP)}
    async with running_set(api, SET, 4, change=only_pc_a(2, 2), **spec) as stage:
        await stage.edit(NEW, "pc-a")
        await stage.until_updated(2)
        await stage.story.until_ready(4, NEW)
        assert least_whole(stage.story.moments, 2) == 2
        assert max(map(len, stage.story.moments)) == 6
        assert {each.replica for each in stage.story.now} == {0, 1}
        assert len(stage.story.born) == 6


async def test_clique_with_max_unavailable_updates_so_many_pods_together(api: Api) -> None:
    change = only_pc_a(4, 1, maxUnavailable=2)
    async with running_set(api, SET, 4, change=change) as stage:
        await stage.edit(NEW, "pc-a")
        await stage.until_updated(1)
        assert least_ready(stage.story.moments, CLIQUE) == 2
        assert len(stage.story.deleted) == len(stage.story.born) == 4


async def test_clique_with_surge_never_lacks_a_pod(api: Api) -> None:
    async with running_set(api, SET, 3, change=only_pc_a(3, 3, **NO_GAP)) as stage:
        await stage.edit(NEW, "pc-a")
        await stage.until_updated(1)
        await stage.story.until_ready(3, NEW)
        assert least_ready(stage.story.moments, CLIQUE) == 3
        assert max(map(len, stage.story.moments)) == 4


async def test_group_with_max_unavailable_updates_so_many_units_together(api: Api) -> None:
    def change(body: Any) -> None:
        [group] = body["spec"]["template"]["podCliqueScalingGroups"]
        group |= {"replicas": 4, "minAvailable": 1, "rollingUpdate": {"maxUnavailable": 2}}

    async with running_set(api, SET, 18, change=change) as stage:
        await stage.edit(NEW, "pc-b")
        await stage.until_updated(1)
        await stage.story.until_ready(18)
        assert most_missing(stage.story.moments, 4, by_unit, lambda pod: pod.unit is not None) == 2
        assert len(stage.story.deleted) == len(stage.story.born) == 16


async def test_coherent_update_has_no_moment_with_two_versions_in_a_replica(api: Api) -> None:
    spec: dict[str, Any] = {"replicas": 2, **strategy(coherent=True)}
    async with running_set(api, SET, 20, **spec) as stage:
        await stage.edit(NEW, *ALL)
        await stage.until_updated(2)
        await stage.story.until_ready(20, NEW)
        assert order(stage.story.deleted, by_replica) == [0, 1]
        assert not any(map(is_mixed, stage.story.moments))
        assert len(stage.story.deleted) == 20


def is_mixed(moment: Moment) -> bool:
    """Whether pods of two versions work together in a replica."""
    working = {(each.replica, each.image) for each in moment if each.ready}
    return len(working) > len({replica for replica, _ in working})


async def edited_twice(stage: Stage, image: str) -> None:
    """Another edit when the first one has reached one pod and can not go on."""
    await stage.stall()
    await stage.edit(NEW, "pc-a")
    await stage.story.until(lambda: NEW in stage.story.images())
    await stage.world.until_settled()
    await stage.edit(image, "pc-a")
    await stage.go_on()
    await stage.until_updated(2)
    await stage.story.until_ready(4, image)


async def test_edit_of_an_edit_is_reached_without_the_one_between(api: Api) -> None:
    async with running_set(api, SET, 4, change=only_pc_a(2, 2), replicas=2) as stage:
        await edited_twice(stage, NEWER)
        assert Counter(each.image for each in stage.story.born) == {NEW: 1, NEWER: 4}
        assert order(stage.story.deleted, by_replica) == [0, 1]


async def test_edit_taken_back_replaces_only_what_had_been_replaced(api: Api) -> None:
    async with running_set(api, SET, 4, change=only_pc_a(2, 2), replicas=2) as stage:
        first = (await stage.status())["currentGenerationHash"]
        await edited_twice(stage, OLD)
        assert Counter(each.image for each in stage.story.born) == {NEW: 1, OLD: 1}
        assert {each.replica for each in stage.story.deleted} == {0}
        assert (await stage.status())["currentGenerationHash"] == first


async def test_edits_in_quick_succession_end_at_the_last(api: Api) -> None:
    async with running_set(api, SET, 4, change=only_pc_a(2, 2), replicas=2) as stage:
        for image in (NEW, NEWER, NEW, NEWER):
            await stage.edit(image, "pc-a")
        await stage.until_updated(2)
        await stage.story.until_ready(4, NEWER)
        assert least_whole(stage.story.moments, 2) == 1
        assert least_ready(stage.story.moments, CLIQUE) == 1
