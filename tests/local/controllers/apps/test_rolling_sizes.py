"""How large the ReplicaSets of a Deployment may be: rules as tables."""

import msgspec
import pytest

from kilonova.local.controllers.apps.deployment.rolling import (
    Sizes,
    grown_new,
    max_surge,
    max_unavailable,
    rescaled,
    shrunk_old,
    size_of_new,
)
from kilonova.local.controllers.apps.objects import ReplicaSet, Share
from tests.local.controllers.apps.values import a_deployment, a_set


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", (3, 2)),
        (4, 1, 0, (1, 0)),
        (3, 0, "10%", (0, 1)),
        (1, "1%", "25%", (1, 0)),
        (2, 0, 5, (0, 2)),
        (0, "25%", "25%", (0, 0)),
    ],
)
def test_fenceposts(
    replicas: int, surge: Share, unavailable: Share, expected: tuple[int, int]
) -> None:
    deployment = a_deployment(replicas, surge=surge, unavailable=unavailable)
    assert (max_surge(deployment), max_unavailable(deployment)) == expected


@pytest.mark.parametrize(
    ("replicas", "old", "new", "expected"),
    [(10, 10, 0, 3), (10, 8, 5, 5), (10, 5, 5, 8), (10, 0, 5, 10), (10, 13, 0, 0)],
)
def test_the_newest_set_grows_into_the_room(
    replicas: int, old: int, new: int, expected: int
) -> None:
    assert size_of_new(a_deployment(replicas), [a_set("old", old)], new) == expected


def test_room_is_free_when_it_has_been_left() -> None:
    left = a_set("old", 5)
    left.status = msgspec.structs.replace(left.status, replicas=8)
    assert size_of_new(a_deployment(10), [left], 5) == 5
    unheard = a_set("old", 5)
    unheard.metadata = msgspec.structs.replace(unheard.metadata, generation=2)
    assert size_of_new(a_deployment(10), [unheard], 5) == 5


def test_the_newest_set_never_stays_larger_than_wanted() -> None:
    new = a_set("new", 8)
    assert grown_new(a_deployment(5), [], new) == {"new": 5}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param([a_set("a", 10)], a_set("n", 3, available=0), {"a": 8}, id="by what is spare"),
        pytest.param([a_set("a", 8)], a_set("n", 5, available=0), {}, id="new ones not up yet"),
        pytest.param([a_set("a", 8)], a_set("n", 5, available=2), {"a": 6}, id="as new ones come"),
        pytest.param(
            [a_set("a", 8, available=3)],
            a_set("n", 5, available=5),
            {"a": 3},
            id="what is unavailable anyway goes first",
        ),
        pytest.param(
            [a_set("b", 4, age=10), a_set("a", 6, age=50)],
            a_set("n", 3, available=3),
            {"a": 1},
            id="the oldest first",
        ),
        pytest.param(
            [a_set("a", 8, available=10)],
            a_set("n", 3, available=1),
            {"a": 7},
            id="more available than its size means: not yet shrunk",
        ),
        pytest.param([a_set("a", 0)], a_set("n", 10), {}, id="nothing left"),
    ],
)
def test_old_sets_shrink(old: list[ReplicaSet], new: ReplicaSet, expected: Sizes) -> None:
    assert shrunk_old(a_deployment(10), old, new) == expected


@pytest.mark.parametrize(
    ("replicas", "old", "new", "expected"),
    [
        pytest.param(5, [], a_set("n", 3), {"n": 5}, id="one set takes all"),
        pytest.param(5, [a_set("a", 3)], None, {"a": 5}, id="before a new one is there"),
        pytest.param(5, [a_set("a", 0)], a_set("n", 0), {"n": 5}, id="none active: the newest"),
        pytest.param(3, [], a_set("n", 3), {}, id="as wanted"),
        pytest.param(
            10,
            [a_set("a", 2)],
            a_set("n", 10, desired=10),
            {"a": 0},
            id="the newest is complete",
        ),
        pytest.param(
            20,
            [a_set("a", 8, most=13)],
            a_set("n", 5, most=13, age=1),
            {"a": 15, "n": 10},
            id="each its share, as it grows",
        ),
        pytest.param(
            5,
            [a_set("a", 8, most=13)],
            a_set("n", 5, most=13, age=1),
            {"a": 4, "n": 3},
            id="each its share, as it shrinks",
        ),
        pytest.param(
            0,
            [a_set("a", 8, most=13)],
            a_set("n", 5, most=13, age=1),
            {"a": 0, "n": 0},
            id="to nothing",
        ),
        pytest.param(
            20,
            [a_set("a", 8)],
            a_set("n", 5),
            {"a": 20},
            id="without notes the largest takes what is left over",
        ),
    ],
)
def test_rescaling_in_the_middle_of_a_rollout(
    replicas: int, old: list[ReplicaSet], new: ReplicaSet | None, expected: Sizes
) -> None:
    assert rescaled(a_deployment(replicas), old, new)[0] == expected


def test_recreate_leaves_sizes_to_the_rollout() -> None:
    sets = [a_set("a", 2)]
    assert rescaled(a_deployment(4, recreate=True), sets, a_set("n", 1)) == ({}, [])
