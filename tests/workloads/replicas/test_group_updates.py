"""Updates of a replica: what is replaced, how much at a time, and what stays."""

from dataclasses import replace as change
from typing import Any

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodClique, PodCliqueSet, names
from kilonova.api.grove.parts import RollingUpdate
from kilonova.api.grove.podcliqueset import SetRollingUpdate, UpdateStrategy
from kilonova.workloads.replicas.units import Unit
from kilonova.workloads.replicas.updates import units_to_update
from tests.workloads.builders import clique, group, pod_clique_set
from tests.workloads.replicas.replica_values import (
    World,
    incarnations,
    started,
    turn,
    with_images,
)

UP = Unit(
    index=0,
    cliques={},
    is_scheduled=True,
    is_available=True,
    is_broken=False,
    is_outdated=True,
    is_updated=False,
    was_up=True,
)
"""An outdated unit that does its work."""
DOWN = change(UP, is_available=False)
NEVER_UP = change(DOWN, was_up=False)
NEW = change(UP, is_outdated=False, is_updated=True)
COMING = change(NEW, is_available=False)
WAITING_FOR_ROOM = change(COMING, was_up=False)


@pytest.mark.parametrize(
    ("units", "needed", "max_unavailable", "chosen"),
    [
        pytest.param([UP, UP, UP], 1, 1, {0}, id="one at a time, lowest first"),
        pytest.param([UP, UP, UP], 3, 1, {0}, id="one may be missing though all are needed"),
        pytest.param([UP, UP, UP], 1, 2, {0, 1}, id="as many as may be unavailable"),
        pytest.param([UP, UP, UP, UP], 3, 3, {0, 1}, id="not below what is needed by more"),
        pytest.param([UP, DOWN, DOWN], 1, 1, {1, 2}, id="all that are down, at once"),
        pytest.param([UP, UP, NEVER_UP], 1, 1, {0, 2}, id="what never came up is not waited for"),
        pytest.param([COMING, UP, UP], 1, 1, set[int](), id="the one on its way is waited for"),
        pytest.param([NEW, UP, UP], 1, 1, {1}, id="the next when it has come"),
        pytest.param([NEW, WAITING_FOR_ROOM, UP], 1, 1, {2}, id="there may be no room for one"),
        pytest.param([UP, WAITING_FOR_ROOM], 2, 1, set[int](), id="too few do their work"),
        pytest.param([NEW, NEW], 1, 1, set[int](), id="nothing is outdated"),
    ],
)
def test_units_are_chosen(
    units: list[Unit], needed: int, max_unavailable: int, chosen: set[int]
) -> None:
    numbered = [change(unit, index=index) for index, unit in enumerate(units)]
    found = units_to_update(
        numbered, replicas=len(units), needed=needed, max_unavailable=max_unavailable
    )
    assert found == chosen


def test_unit_without_room_is_not_waited_for() -> None:
    units = [change(unit, index=index) for index, unit in enumerate([COMING, UP, UP])]
    found = units_to_update(units, replicas=3, needed=1, max_unavailable=1, homeless={0})
    assert found == {1}


@pytest.mark.parametrize(
    ("units", "chosen"),
    [
        pytest.param([UP, UP, WAITING_FOR_ROOM], set[int](), id="the one more is waited for"),
        pytest.param([UP, UP, NEW], {0}, id="it makes up for one that goes"),
        pytest.param([COMING, UP, NEW], set[int](), id="and for no other"),
        pytest.param([NEW, UP, NEW], {1}, id="until that has come"),
    ],
)
def test_units_beyond_those_asked_for_make_up_for_those_that_go(
    units: list[Unit], chosen: set[int]
) -> None:
    numbered = [change(unit, index=index) for index, unit in enumerate(units)]
    found = units_to_update(numbered, replicas=2, needed=1, max_unavailable=0)
    assert found == chosen


def a_set(**rest: Any) -> PodCliqueSet:
    how: RollingUpdate | None = rest.pop("how", None)
    return pod_clique_set(
        clique("a", 2, 1),
        clique("b"),
        clique("c", 2, 1),
        groups=[group("x", "b", "c", replicas=3, rolling_update=how)],
        **rest,
    )


def images(world: World) -> dict[str, str]:
    return {
        name: each.spec.pod_spec["containers"][0]["image"]
        for name, each in sorted(world.cliques.items())
    }


def hashes(world: World) -> set[str | None]:
    return {each.metadata.labels.get(names.GENERATION_HASH) for each in world.cliques.values()}


def test_replica_whose_turn_has_not_come_stays_as_it_is() -> None:
    world = started(a_set())
    before = images(world)
    world.edit(with_images(world.set_, a="new", b="new"))
    assert world.settle() == []
    assert images(world) == before


def test_replica_that_is_new_begins_with_the_newest_revision() -> None:
    world = World(a_set())
    world.edit(with_images(world.set_, a="new"))
    world.settle()
    assert images(world)["sys-0-a"] == "new"


def test_clique_that_stands_alone_gets_its_template_and_keeps_its_incarnation() -> None:
    world = started(a_set())
    world.edit(turn(with_images(world.set_, a="new"), 0))
    world.settle()
    assert images(world)["sys-0-a"] == "new"
    assert set(incarnations(world).values()) == {0}
    assert len(hashes(world)) == 1, "cliques that do not differ move on at once"


def test_units_are_replaced_one_after_the_other_each_as_a_whole() -> None:
    world = started(a_set())
    world.edit(turn(with_images(world.set_, b="new"), 0))
    for done in range(1, 4):
        world.settle()
        anew = {name for name, each in incarnations(world).items() if each == 1}
        assert anew == {f"sys-0-x-{index}-{name}" for index in range(done) for name in "bc"}
        world.bring_up()
    world.settle()
    assert set(incarnations(world).values()) == {0, 1}, "none is replaced twice"
    assert len(hashes(world)) == 1


def test_update_goes_as_fast_as_the_group_allows() -> None:
    world = started(a_set(how=RollingUpdate(max_unavailable="67%")))
    world.edit(turn(with_images(world.set_, c="new"), 0))
    world.settle()
    anew = sorted(name for name, each in incarnations(world).items() if each)
    assert anew == ["sys-0-x-0-b", "sys-0-x-0-c", "sys-0-x-1-b", "sys-0-x-1-c"]


def test_coherent_update_replaces_all_that_is_outdated_at_once() -> None:
    coherent = UpdateStrategy(rolling_update=SetRollingUpdate(coherent=True))
    world = started(a_set(update_strategy=coherent))
    world.edit(turn(with_images(world.set_, a="new", b="new"), 0))
    world.settle()
    assert set(incarnations(world).values()) == {1}


def test_set_that_waits_for_deletion_changes_cliques_in_place() -> None:
    world = started(a_set(update_strategy=UpdateStrategy("OnDelete")))
    world.edit(with_images(world.set_, a="new", b="new", c="new"))
    world.settle()
    assert set(images(world).values()) == {"new"}
    assert set(incarnations(world).values()) == {0}


def waiting_no_longer() -> World:
    """A set that had left the pods of one clique in each unit outdated, and now rolls."""
    world = started(a_set(update_strategy=UpdateStrategy("OnDelete")))
    world.edit(with_images(world.set_, b="new"))
    world.settle()
    rolling = PodCliqueSet(
        world.set_.metadata, replace(world.set_.spec, update_strategy=None), world.set_.status
    )
    world.edit(turn(rolling, 0))
    return world


def test_od9_units_left_outdated_are_replaced_whole_when_the_set_waits_no_longer() -> None:
    world = waiting_no_longer()
    for done in range(1, 4):
        world.settle()
        anew = {name for name, each in incarnations(world).items() if each == 1}
        assert anew == {f"sys-0-x-{index}-{name}" for index in range(done) for name in "bc"}
        world.bring_up()
    world.settle()
    assert set(incarnations(world).values()) == {0, 1}, "none is replaced twice"


@pytest.mark.parametrize("first", ["b", "c"])
def test_od9_crash_half_way_through_such_a_unit_replaces_the_rest_and_nothing_twice(
    first: str,
) -> None:
    world = waiting_no_longer()
    plan = world.plan()
    plan.patches = [each for each in plan.patches if each.name == f"sys-0-x-0-{first}"]
    world.carry_out(plan)
    world.settle()
    found = incarnations(world)
    assert [found[f"sys-0-x-0-{name}"] for name in "bc"] == [1, 1]


def test_clique_made_anew_counts_as_often_started_as_its_unit() -> None:
    world = started(a_set())
    world.settle(anew=["sys-0-x-0-b", "sys-0-x-0-c"])
    del world.cliques["sys-0-x-0-b"]
    world.settle()
    assert incarnations(world)["sys-0-x-0-b"] == 1


def test_crash_half_way_through_a_unit_replaces_the_rest_and_nothing_twice() -> None:
    world = started(a_set())
    world.edit(turn(with_images(world.set_, b="new"), 0))
    plan = world.plan()
    done = [each for each in plan.patches if each.name == "sys-0-x-0-b"]
    plan.patches = done
    world.carry_out(plan)
    world.settle()
    assert incarnations(world)["sys-0-x-0-b"] == 1
    assert incarnations(world)["sys-0-x-0-c"] == 1


def test_edit_of_an_edit_goes_to_the_last() -> None:
    world = started(a_set())
    world.edit(turn(with_images(world.set_, b="bad"), 0))
    world.settle()
    world.edit(with_images(world.set_, b="good"))
    world.settle()
    found = images(world)
    assert found["sys-0-x-0-b"] == "good"
    assert found["sys-0-x-1-b"] == found["sys-0-x-2-b"] == "busybox"
    world.bring_up()
    world.settle()
    assert images(world)["sys-0-x-1-b"] == "good"


def test_group_that_grows_in_an_update_adds_units_of_the_new_template() -> None:
    world = started(a_set())
    world.edit(turn(with_images(world.set_, b="new"), 0))
    world.settle()
    world.scale("PodCliqueScalingGroup", "sys-0-x", 4)
    world.settle()
    assert images(world)["sys-0-x-3-b"] == "new"
    assert incarnations(world)["sys-0-x-3-b"] == 0


def test_labels_and_annotations_of_an_older_template_are_taken_back() -> None:
    old = pod_clique_set(clique("a", labels={"x": "1", "y": "1"}, annotations={"note": "1"}))
    world = started(old)
    world.edit(turn(pod_clique_set(clique("a", labels={"x": "2"})), 0))
    world.settle()
    live: PodClique = world.cliques["sys-0-a"]
    assert live.metadata.labels["x"] == "2"
    assert "y" not in live.metadata.labels
    assert "note" not in live.metadata.annotations


def test_field_that_a_new_template_has_no_more_is_taken_back() -> None:
    selecting = {"containers": [{"name": "main", "image": "i"}], "nodeSelector": {"gpu": "yes"}}
    world = started(pod_clique_set(clique("a", pod_spec=selecting)))
    world.edit(turn(pod_clique_set(clique("a")), 0))
    world.settle()
    assert "nodeSelector" not in world.cliques["sys-0-a"].spec.pod_spec


def test_surge_adds_a_unit_before_any_goes_and_takes_it_away_at_the_end() -> None:
    world = started(a_set(how=RollingUpdate(max_unavailable=0, max_surge=1)))
    world.edit(turn(with_images(world.set_, b="new"), 0))
    world.settle()
    assert images(world)["sys-0-x-3-b"] == "new"
    assert set(incarnations(world).values()) == {0}
    for done in range(1, 4):
        world.bring_up()
        world.settle()
        assert sum(each == 1 for each in incarnations(world).values()) == 2 * done
        assert "sys-0-x-2" in world.gangs
    world.bring_up()
    world.settle()
    assert not any(name.startswith("sys-0-x-3") for name in world.cliques)
    assert "sys-0-x-2" not in world.gangs
