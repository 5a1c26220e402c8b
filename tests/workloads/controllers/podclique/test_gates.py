"""When pods may be scheduled, and when they may start."""

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodClique, PodCliqueScalingGroup, names
from kilonova.api.grove.podcliqueset import SetRollingUpdate, UpdateStrategy
from kilonova.api.grove.scaling_group import PodCliqueScalingGroupSpec
from kilonova.workloads.builders.template_lookup import find_group_member
from kilonova.workloads.controllers.podclique.gates import (
    has_clique_started,
    has_other_revision,
    is_scaled_in,
)
from kilonova.workloads.resources import Pod
from tests.workloads.api_objects import clique, group, metadata, pod_clique_set
from tests.workloads.controllers.podclique.clique_objects import (
    NEW,
    OLD,
    build_clique,
    build_gang,
    build_pod,
    build_pods,
    list_created_indexes,
    plan_pods,
    seconds_ago,
)

FIRST, SECOND = names.pod("sys-0-w", 0, 0), names.pod("sys-0-w", 1, 0)


def test_clique_without_its_gang_creates_no_pods() -> None:
    assert list_created_indexes(plan_pods(build_clique(2, gang="sys-0"))) == []


def test_pods_listed_by_their_gang_are_created_without_gate() -> None:
    clique = build_clique(2, gang="sys-0")
    plan = plan_pods(clique, gang=build_gang("sys-0", clique, [FIRST]))
    assert [(each.index, each.gated) for each in plan.create] == [(0, False), (1, True)]


def test_gs6_pods_of_a_scaled_gang_wait_for_the_base_gang() -> None:
    clique = build_clique(2, gang="sys-0-g-0", base="sys-0")
    gang = build_gang("sys-0-g-0", clique, [FIRST, SECOND])
    for base in (None, build_gang("sys-0", clique, [])):
        assert all(each.gated for each in plan_pods(clique, gang=gang, base_gang=base).create)
    placed = build_gang("sys-0", clique, [], scheduled=True)
    assert not any(each.gated for each in plan_pods(clique, gang=gang, base_gang=placed).create)


def test_gates_are_lifted_from_listed_pods() -> None:
    clique = build_clique(2, gang="sys-0")
    pods = [build_pod(clique, index, gated=True) for index in (0, 1)]
    plan = plan_pods(clique, pods, gang=build_gang("sys-0", clique, [SECOND]))
    assert [pod.metadata.name for pod in plan.ungate] == [SECOND]


def test_gates_stay_while_the_base_gang_is_not_scheduled() -> None:
    clique = build_clique(1, gang="sys-0-g-0", base="sys-0")
    gang = build_gang("sys-0-g-0", clique, [FIRST])
    assert plan_pods(clique, [build_pod(clique, 0, gated=True)], gang=gang).is_idle


def test_a_gate_that_no_gang_needs_is_lifted() -> None:
    clique = build_clique(1)
    assert len(plan_pods(clique, [build_pod(clique, 0, gated=True)]).ungate) == 1


def test_so_pods_are_released_when_their_dependencies_have_started() -> None:
    clique = build_clique(2, after=["sys-0-a"])
    pods = [
        build_pod(clique, 0),
        build_pod(clique, 1, annotations={names.STARTUP_RELEASED: "true"}),
    ]
    assert plan_pods(clique, pods, are_dependencies_ready=lambda: False).is_idle
    plan = plan_pods(clique, pods, are_dependencies_ready=lambda: True)
    assert [pod.metadata.name for pod in plan.release] == [FIRST]


@pytest.mark.parametrize("ready", [True, False])
def test_so_pods_are_created_released_when_dependencies_have_started(ready: bool) -> None:
    plan = plan_pods(build_clique(1, after=["sys-0-a"]), are_dependencies_ready=lambda: ready)
    assert [each.released for each in plan.create] == [ready]


def test_other_cliques_are_not_read_once_all_pods_are_released() -> None:
    clique = build_clique(1, after=["sys-0-a"])
    pods = build_pods(clique, 0, annotations={names.STARTUP_RELEASED: "true"})

    def request() -> bool:
        raise AssertionError

    assert plan_pods(clique, pods, are_dependencies_ready=request).is_idle


def test_clique_has_started_when_enough_pods_are_ready() -> None:
    clique = build_clique(3, 2)
    assert not has_clique_started(clique, [*build_pods(clique, 0), build_pod(clique, 1, up=False)])
    assert not has_clique_started(
        clique, [*build_pods(clique, 0), *build_pods(clique, 1, ending=True)]
    )
    assert has_clique_started(clique, build_pods(clique, 0, 1))
    assert has_clique_started(
        clique, [*build_pods(clique, 0), build_pod(clique, 1, phase="Succeeded")]
    )
    earlier = build_pods(clique, 1, annotations={names.INCARNATION: "7"})
    assert not has_clique_started(clique, [*build_pods(clique, 0), *earlier])


def test_a_clique_scaled_to_zero_blocks_no_dependents() -> None:
    assert has_clique_started(build_clique(0, 2), [])


@pytest.mark.parametrize(("replicas", "missing"), [(0, (0, 1)), (1, (1,)), (2, ())])
def test_group_replicas_scaled_in_do_not_block_dependents(
    replicas: int, missing: tuple[int, ...]
) -> None:
    set_ = pod_clique_set(clique("b"), groups=[group("sg", "b", replicas=2, min_available=2)])
    scaled = PodCliqueScalingGroup(
        metadata("sys-0-sg"), PodCliqueScalingGroupSpec(("b",), replicas, 2)
    )
    members = [
        find_group_member(set_.spec.template, "sys", 0, f"sys-0-sg-{index}-b") for index in range(2)
    ]
    found = [each for each in members if each is not None and is_scaled_in(each, scaled)]
    assert tuple(each.index for each in found) == missing
    assert not any(each is None or is_scaled_in(each, None) for each in members)
    assert find_group_member(set_.spec.template, "sys", 0, "sys-0-b") is None


COHERENT = pod_clique_set(
    update_strategy=UpdateStrategy("RollingRecreate", SetRollingUpdate(coherent=True))
)


@pytest.mark.parametrize("alone", [True, False])
def test_new_pods_of_a_coherent_set_wait_for_old_pods(alone: bool) -> None:
    clique = build_clique(2)
    plan = plan_pods(
        clique,
        [build_pod(clique, 0, gated=True)],
        set_=COHERENT,
        is_replica_coherent=lambda: alone,
    )
    assert [each.gated for each in plan.create] == [not alone]
    assert len(plan.ungate) == alone


@pytest.mark.parametrize(
    ("pod", "left"),
    [
        (build_pod(build_clique(incarnation=1), 0, up=True), False),
        (build_pod(build_clique(incarnation=1), 0, up=True, hash_=OLD), True),
        (build_pod(build_clique(), 0, up=True), True),
        (build_pod(build_clique(), 0, up=None), True),
        (build_pod(build_clique(), 0, up=True, ending=True), False),
        (build_pod(build_clique(), 0, hash_=OLD, phase="Succeeded"), False),
        (build_pod(build_clique(), 0, owner="another"), False),
    ],
    ids=["new", "template", "incarnation", "not placed", "ending", "done", "another's"],
)
def test_pods_of_an_earlier_revision_count_as_other_revision(pod: Pod, left: bool) -> None:
    assert has_other_revision(build_clique(incarnation=1), [pod], NEW) == left


def test_clique_of_another_revision_counts_as_other_revision() -> None:
    other = build_clique(labels={names.GENERATION_HASH: OLD})
    going = PodClique(
        replace(other.metadata, deletion_timestamp=seconds_ago(1)), other.spec, other.status
    )
    assert has_other_revision(other, [], NEW)
    assert has_other_revision(going, [build_pod(other, 0, up=True)], NEW)
    assert not has_other_revision(going, [], NEW)
