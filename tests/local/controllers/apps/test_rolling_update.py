"""The sizes of a Deployment's ReplicaSets: rules as tables."""

import msgspec
import pytest

from kilonova.local.controllers.apps.deployment.rolling_update import (
    ReplicaSetSizes,
    compute_new_size,
    max_surge,
    max_unavailable,
    scale_down_old,
    scale_proportionally,
    scale_up_new,
)
from kilonova.local.controllers.apps.objects import IntOrPercent, ReplicaSet
from tests.local.controllers.apps.builders import build_deployment, build_replica_set


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
    replicas: int, surge: IntOrPercent, unavailable: IntOrPercent, expected: tuple[int, int]
) -> None:
    deployment = build_deployment(replicas, surge=surge, unavailable=unavailable)
    assert (max_surge(deployment), max_unavailable(deployment)) == expected


@pytest.mark.parametrize(
    ("replicas", "old", "new", "expected"),
    [(10, 10, 0, 3), (10, 8, 5, 5), (10, 5, 5, 8), (10, 0, 5, 10), (10, 13, 0, 0)],
)
def test_the_new_set_scales_up_to_the_surge_limit(
    replicas: int, old: int, new: int, expected: int
) -> None:
    assert (
        compute_new_size(build_deployment(replicas), [build_replica_set("old", old)], new)
        == expected
    )


def test_surge_is_available_once_old_pods_are_gone() -> None:
    left = build_replica_set("old", 5)
    left.status = msgspec.structs.replace(left.status, replicas=8)
    assert compute_new_size(build_deployment(10), [left], 5) == 5
    unheard = build_replica_set("old", 5)
    unheard.metadata = msgspec.structs.replace(unheard.metadata, generation=2)
    assert compute_new_size(build_deployment(10), [unheard], 5) == 5


def test_newest_replica_set_never_exceeds_desired_replicas() -> None:
    new = build_replica_set("new", 8)
    assert scale_up_new(build_deployment(5), [], new) == {"new": 5}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            [build_replica_set("a", 10)],
            build_replica_set("n", 3, available=0),
            {"a": 8},
            id="by what is spare",
        ),
        pytest.param(
            [build_replica_set("a", 8)],
            build_replica_set("n", 5, available=0),
            {},
            id="new ones not up yet",
        ),
        pytest.param(
            [build_replica_set("a", 8)],
            build_replica_set("n", 5, available=2),
            {"a": 6},
            id="as new ones come",
        ),
        pytest.param(
            [build_replica_set("a", 8, available=3)],
            build_replica_set("n", 5, available=5),
            {"a": 3},
            id="what is unavailable anyway goes first",
        ),
        pytest.param(
            [build_replica_set("b", 4, age=10), build_replica_set("a", 6, age=50)],
            build_replica_set("n", 3, available=3),
            {"a": 1},
            id="the oldest first",
        ),
        pytest.param(
            [build_replica_set("a", 8, available=10)],
            build_replica_set("n", 3, available=1),
            {"a": 7},
            id="more available than its size means: not yet shrunk",
        ),
        pytest.param(
            [build_replica_set("a", 0)], build_replica_set("n", 10), {}, id="nothing left"
        ),
    ],
)
def test_old_replica_sets_scale_down(
    old: list[ReplicaSet], new: ReplicaSet, expected: ReplicaSetSizes
) -> None:
    assert scale_down_old(build_deployment(10), old, new) == expected


@pytest.mark.parametrize(
    ("replicas", "old", "new", "expected"),
    [
        pytest.param(5, [], build_replica_set("n", 3), {"n": 5}, id="one set takes all"),
        pytest.param(
            5, [build_replica_set("a", 3)], None, {"a": 5}, id="before a new one is there"
        ),
        pytest.param(
            5,
            [build_replica_set("a", 0)],
            build_replica_set("n", 0),
            {"n": 5},
            id="none active: the newest",
        ),
        pytest.param(3, [], build_replica_set("n", 3), {}, id="as wanted"),
        pytest.param(
            10,
            [build_replica_set("a", 2)],
            build_replica_set("n", 10, desired=10),
            {"a": 0},
            id="the newest is complete",
        ),
        pytest.param(
            20,
            [build_replica_set("a", 8, most=13)],
            build_replica_set("n", 5, most=13, age=1),
            {"a": 15, "n": 10},
            id="each its share, as it grows",
        ),
        pytest.param(
            5,
            [build_replica_set("a", 8, most=13)],
            build_replica_set("n", 5, most=13, age=1),
            {"a": 4, "n": 3},
            id="each its share, as it shrinks",
        ),
        pytest.param(
            0,
            [build_replica_set("a", 8, most=13)],
            build_replica_set("n", 5, most=13, age=1),
            {"a": 0, "n": 0},
            id="to nothing",
        ),
        pytest.param(
            20,
            [build_replica_set("a", 8)],
            build_replica_set("n", 5),
            {"a": 20},
            id="without notes the largest takes what is left over",
        ),
    ],
)
def test_rescaling_in_the_middle_of_a_rollout(
    replicas: int, old: list[ReplicaSet], new: ReplicaSet | None, expected: ReplicaSetSizes
) -> None:
    assert scale_proportionally(build_deployment(replicas), old, new)[0] == expected


def test_recreate_leaves_sizes_to_the_rollout() -> None:
    sets = [build_replica_set("a", 2)]
    assert scale_proportionally(
        build_deployment(4, recreate=True), sets, build_replica_set("n", 1)
    ) == ({}, [])
