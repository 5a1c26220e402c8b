"""When pods may be placed, and when they may start."""

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, names
from kilonova.api.grove.podcliqueset import SetRollingUpdate, UpdateStrategy
from kilonova.api.grove.scalinggroup import PodCliqueScalingGroupSpec
from kilonova.workloads.cliques.release import has_started, is_left_behind, is_scaled_in
from kilonova.workloads.resources import Pod
from kilonova.workloads.templates.lookup import member_named
from tests.workloads.builders import clique, group, metadata, pod_clique_set
from tests.workloads.cliques.clique_values import (
    NEW,
    OLD,
    a_clique,
    a_gang,
    a_pod,
    ago,
    decided,
    made,
    pods,
)

FIRST, SECOND = names.pod("sys-0-w", 0, 0), names.pod("sys-0-w", 1, 0)


def test_without_its_gang_a_clique_makes_no_pods() -> None:
    assert made(decided(a_clique(2, gang="sys-0"))) == []


def test_pods_that_their_gang_lists_are_born_free_and_others_gated() -> None:
    clique = a_clique(2, gang="sys-0")
    plan = decided(clique, gang=a_gang("sys-0", clique, [FIRST]))
    assert [(each.index, each.gated) for each in plan.create] == [(0, False), (1, True)]


def test_gs6_pods_of_a_scaled_gang_wait_for_the_base_gang() -> None:
    clique = a_clique(2, gang="sys-0-g-0", base="sys-0")
    gang = a_gang("sys-0-g-0", clique, [FIRST, SECOND])
    for base in (None, a_gang("sys-0", clique, [])):
        assert all(each.gated for each in decided(clique, gang=gang, base_gang=base).create)
    placed = a_gang("sys-0", clique, [], scheduled=True)
    assert not any(each.gated for each in decided(clique, gang=gang, base_gang=placed).create)


def test_gates_are_lifted_from_listed_pods() -> None:
    clique = a_clique(2, gang="sys-0")
    having = [a_pod(clique, index, gated=True) for index in (0, 1)]
    plan = decided(clique, having, gang=a_gang("sys-0", clique, [SECOND]))
    assert [pod.metadata.name for pod in plan.ungate] == [SECOND]


def test_gates_stay_while_the_base_gang_is_not_placed() -> None:
    clique = a_clique(1, gang="sys-0-g-0", base="sys-0")
    gang = a_gang("sys-0-g-0", clique, [FIRST])
    assert decided(clique, [a_pod(clique, 0, gated=True)], gang=gang).is_idle


def test_a_gate_that_nobody_holds_is_lifted() -> None:
    clique = a_clique(1)
    assert len(decided(clique, [a_pod(clique, 0, gated=True)]).ungate) == 1


def test_so_pods_are_released_when_what_they_start_after_has_started() -> None:
    clique = a_clique(2, after=["sys-0-a"])
    having = [a_pod(clique, 0), a_pod(clique, 1, annotations={names.RELEASED: "true"})]
    assert decided(clique, having, dependencies_ready=lambda: False).is_idle
    plan = decided(clique, having, dependencies_ready=lambda: True)
    assert [pod.metadata.name for pod in plan.release] == [FIRST]


@pytest.mark.parametrize("ready", [True, False])
def test_so_pods_are_born_released_when_it_has_already(ready: bool) -> None:
    plan = decided(a_clique(1, after=["sys-0-a"]), dependencies_ready=lambda: ready)
    assert [each.released for each in plan.create] == [ready]


def test_nobody_looks_at_other_cliques_once_all_pods_are_released() -> None:
    clique = a_clique(1, after=["sys-0-a"])
    having = pods(clique, 0, annotations={names.RELEASED: "true"})

    def asked() -> bool:
        raise AssertionError

    assert decided(clique, having, dependencies_ready=asked).is_idle


def test_a_clique_has_started_when_enough_of_its_pods_are_up() -> None:
    clique = a_clique(3, 2)
    assert not has_started(clique, [*pods(clique, 0), a_pod(clique, 1, up=False)])
    assert not has_started(clique, [*pods(clique, 0), *pods(clique, 1, ending=True)])
    assert has_started(clique, pods(clique, 0, 1))
    assert has_started(clique, [*pods(clique, 0), a_pod(clique, 1, phase="Succeeded")])
    earlier = pods(clique, 1, annotations={names.INCARNATION: "7"})
    assert not has_started(clique, [*pods(clique, 0), *earlier])


def test_a_clique_scaled_to_zero_holds_nobody_up() -> None:
    assert has_started(a_clique(0, 2), [])


@pytest.mark.parametrize(("replicas", "missing"), [(0, (0, 1)), (1, (1,)), (2, ())])
def test_replicas_that_a_group_was_scaled_below_hold_nobody_up(
    replicas: int, missing: tuple[int, ...]
) -> None:
    set_ = pod_clique_set(clique("b"), groups=[group("sg", "b", replicas=2, min_available=2)])
    scaled = PodCliqueScalingGroup(
        metadata("sys-0-sg"), PodCliqueScalingGroupSpec(("b",), replicas, 2)
    )
    members = [
        member_named(set_.spec.template, "sys", 0, f"sys-0-sg-{index}-b") for index in range(2)
    ]
    found = [each for each in members if each is not None and is_scaled_in(each, scaled)]
    assert tuple(each.index for each in found) == missing
    assert not any(each is None or is_scaled_in(each, None) for each in members)
    assert member_named(set_.spec.template, "sys", 0, "sys-0-b") is None


COHERENT = pod_clique_set(
    update_strategy=UpdateStrategy("RollingRecreate", SetRollingUpdate(coherent=True))
)


@pytest.mark.parametrize("alone", [True, False])
def test_new_pods_of_a_coherent_set_wait_until_nothing_old_is_left(alone: bool) -> None:
    clique = a_clique(2)
    plan = decided(
        clique,
        [a_pod(clique, 0, gated=True)],
        set_=COHERENT,
        replica_is_of_one_version=lambda: alone,
    )
    assert [each.gated for each in plan.create] == [not alone]
    assert len(plan.ungate) == alone


@pytest.mark.parametrize(
    ("pod", "left"),
    [
        (a_pod(a_clique(incarnation=1), 0, up=True), False),
        (a_pod(a_clique(incarnation=1), 0, up=True, hash_=OLD), True),
        (a_pod(a_clique(), 0, up=True), True),
        (a_pod(a_clique(), 0, up=None), True),
        (a_pod(a_clique(), 0, up=True, ending=True), False),
        (a_pod(a_clique(), 0, hash_=OLD, phase="Succeeded"), False),
        (a_pod(a_clique(), 0, owner="another"), False),
    ],
    ids=["new", "template", "incarnation", "not placed", "ending", "done", "another's"],
)
def test_pods_of_what_a_clique_was_before_are_left_behind(pod: Pod, left: bool) -> None:
    assert is_left_behind(a_clique(incarnation=1), [pod], NEW) == left


def test_clique_of_another_revision_is_left_behind() -> None:
    other = a_clique(labels={names.GENERATION_HASH: OLD})
    going = PodClique(replace(other.metadata, deletion_timestamp=ago(1)), other.spec, other.status)
    assert is_left_behind(other, [], NEW)
    assert is_left_behind(going, [a_pod(other, 0, up=True)], NEW)
    assert not is_left_behind(going, [], NEW)
