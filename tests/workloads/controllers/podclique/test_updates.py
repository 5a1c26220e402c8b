"""Rolling updates of standalone cliques."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kilonova.api.grove import PodClique, PodCliqueStatus, names
from kilonova.api.grove.common import RollingUpdate
from kilonova.api.grove.podclique import PodCliqueUpdateProgress, PodSelection
from kilonova.api.meta import Condition
from kilonova.workloads.pods.classification import is_current, require_pod_index
from kilonova.workloads.pods.state import is_ready, is_terminating
from kilonova.workloads.resources import Pod
from tests.workloads.controllers.podclique.clique_objects import (
    NEW,
    OLD,
    apply_plan,
    build_clique,
    build_pod,
    build_pods,
    build_set,
    get_condition,
    list_created_indexes,
    list_deleted_indexes,
    plan_pods,
    seconds_ago,
)

_AT_OLD = PodCliqueStatus(
    observed_generation=1, current_pod_template_hash=OLD, current_pod_clique_set_generation_hash=OLD
)
_UPDATING = build_set(updating=True)


def build_outdated_clique(
    replicas: int = 3,
    min_available: int | None = None,
    status: PodCliqueStatus = _AT_OLD,
    **more: Any,
) -> PodClique:
    """A clique that has just got another template."""
    return build_clique(replicas, min_available, status=status, **more)


def build_rolling_update(
    unavailable: int | str | None = None, surge: int | str | None = None
) -> RollingUpdate:
    return RollingUpdate(unavailable, surge)


def test_ru7_oldest_ready_pod_is_replaced_first_and_alone() -> None:
    clique = build_outdated_clique()
    ages = [(0, 10), (1, 30), (2, 20)]
    pods = [build_pod(clique, index, up=True, hash_=OLD, age=age) for index, age in ages]
    plan = plan_pods(clique, pods, _UPDATING)
    assert (list_deleted_indexes(plan), list_created_indexes(plan)) == ([1], [1])
    progress = plan.status.update_progress
    assert progress == PodCliqueUpdateProgress(
        NEW, NEW, seconds_ago(0), None, PodSelection(pods[1].metadata.name)
    )


def test_ru10_the_next_one_waits_until_the_last_is_replaced() -> None:
    clique = build_outdated_clique()
    pods = [build_pod(clique, 0, up=False), *build_pods(clique, 1, 2, hash_=OLD)]
    assert plan_pods(clique, pods, _UPDATING).is_idle


def test_outdated_pods_that_are_not_ready_are_deleted_at_once() -> None:
    clique = build_outdated_clique(3, 1)
    pods = [
        *build_pods(clique, 0, hash_=OLD),
        build_pod(clique, 1, up=False, hash_=OLD),
        build_pod(clique, 2, hash_=OLD),
    ]
    assert list_deleted_indexes(plan_pods(clique, pods, _UPDATING)) == [1, 2]


def test_no_pod_is_deleted_before_its_replica_is_updating() -> None:
    clique = build_outdated_clique()
    assert plan_pods(clique, build_pods(clique, 0, 1, 2, hash_=OLD)).is_idle


def test_cliques_of_scaling_groups_are_not_updated_pod_by_pod() -> None:
    clique = build_outdated_clique(labels={names.SCALING_GROUP: "sys-0-g"})
    plan = plan_pods(clique, build_pods(clique, 0, 1, 2, hash_=OLD), _UPDATING)
    assert plan.is_idle
    assert plan.status.update_progress is None


@pytest.mark.parametrize(
    ("how", "replicas", "least", "going"),
    [
        (None, 4, 2, 1),
        (build_rolling_update(2), 4, 2, 2),
        (build_rolling_update("50%"), 5, 5, 2),
        (build_rolling_update("100%"), 3, 3, 3),
        (build_rolling_update("10%"), 4, 4, 1),
        (build_rolling_update(0, 0), 4, 4, 1),
        (build_rolling_update(0, 1), 4, 4, 0),
    ],
)
def test_max_unavailable_pods_are_deleted_together(
    how: RollingUpdate | None, replicas: int, least: int, going: int
) -> None:
    clique = build_outdated_clique(replicas, least, update=how)
    plan = plan_pods(clique, build_pods(clique, *range(replicas), hash_=OLD), _UPDATING)
    assert len(list_deleted_indexes(plan)) == going


def test_no_ready_pod_is_deleted_below_min_available() -> None:
    clique = build_outdated_clique(4, 4, update=build_rolling_update(3))
    pods = [build_pod(clique, 0, up=False), *build_pods(clique, 1, 2, 3, hash_=OLD)]
    assert plan_pods(clique, pods, _UPDATING).is_idle


_UNSCHEDULABLE = Condition(
    "PodScheduled", "False", "Unschedulable", last_transition_time=seconds_ago(30)
)
_RECENTLY_UNSCHEDULABLE = replace(_UNSCHEDULABLE, last_transition_time=seconds_ago(29))


def build_updating_status(*taken: str) -> PodCliqueStatus:
    """The status during an update that has selected some ready pods."""
    selected = PodSelection(taken[-1], taken[:-1]) if taken else None
    return replace(
        _AT_OLD, update_progress=PodCliqueUpdateProgress(NEW, NEW, seconds_ago(9), None, selected)
    )


@pytest.mark.parametrize(
    ("least", "taken", "conditions", "going"),
    [
        (1, (), [_UNSCHEDULABLE], [1]),
        (1, (), [_RECENTLY_UNSCHEDULABLE], []),
        (1, (), [], []),
        (2, (), [_UNSCHEDULABLE], [1]),
        (3, (), [_UNSCHEDULABLE], []),
        (1, ("one",), [_UNSCHEDULABLE], []),
    ],
)
def test_pod_unschedulable_before_an_update_does_not_block_it(
    least: int, taken: tuple[str, ...], conditions: list[Condition], going: list[int]
) -> None:
    clique = build_outdated_clique(3, least, build_updating_status(*taken))
    pods = [build_pod(clique, 0, conditions=conditions), *build_pods(clique, 1, 2, hash_=OLD)]
    assert list_deleted_indexes(plan_pods(clique, pods, _UPDATING)) == going


def test_unschedulable_pods_count_only_after_a_while_and_when_no_pod_is_terminating() -> None:
    clique = build_outdated_clique(3, 1, build_updating_status())
    rest = build_pods(clique, 1, 2, hash_=OLD)
    doubted = plan_pods(
        clique, [build_pod(clique, 0, conditions=[_RECENTLY_UNSCHEDULABLE]), *rest], _UPDATING
    )
    assert (list_deleted_indexes(doubted), doubted.requeue_after) == ([], 1)
    leaving = build_pod(clique, 0, up=True, ending=True)
    successor = build_pod(clique, 0, 1, conditions=[_UNSCHEDULABLE])
    assert plan_pods(clique, [leaving, successor, *rest], _UPDATING).is_idle


def test_edit_during_an_update_without_capacity_takes_no_further_pod() -> None:
    stuck = PodCliqueUpdateProgress("mid", "mid", seconds_ago(9), None, PodSelection("one"))
    clique = build_outdated_clique(3, 1, replace(_AT_OLD, update_progress=stuck))
    pods = [
        build_pod(clique, 0, conditions=[_UNSCHEDULABLE], hash_="mid"),
        *build_pods(clique, 1, 2, hash_=OLD),
    ]
    first = plan_pods(clique, pods, _UPDATING)
    assert list_deleted_indexes(first) == [0]
    clique.status = first.status
    pods = [build_pod(clique, 0, 1, conditions=[_UNSCHEDULABLE]), *pods[1:]]
    assert plan_pods(clique, pods, _UPDATING).is_idle


def test_surge_pods_are_created_first() -> None:
    clique = build_outdated_clique(2, update=build_rolling_update(0, "50%"))
    plan = plan_pods(clique, build_pods(clique, 0, 1, hash_=OLD), _UPDATING)
    assert (list_created_indexes(plan), list_deleted_indexes(plan)) == ([2], [])


def test_od1_nothing_is_deleted_and_the_update_is_over_at_once() -> None:
    clique = build_outdated_clique()
    plan = plan_pods(
        clique, build_pods(clique, 0, 1, 2, hash_=OLD), build_set(on_delete=True, updating=True)
    )
    assert plan.is_idle
    assert plan.status.update_progress == PodCliqueUpdateProgress(
        NEW, NEW, seconds_ago(0), seconds_ago(0)
    )
    assert plan.status.updated_replicas == 0
    assert plan.status.current_pod_template_hash == OLD
    assert get_condition(plan, "UpdateInProgress") == ("False", "UpdateCompleted")
    assert get_condition(plan, "MinAvailableBreached") == ("False", "SufficientReadyPods")


def test_od9_outdated_pods_are_replaced_when_on_delete_ends() -> None:
    over = PodCliqueUpdateProgress(NEW, NEW, seconds_ago(90), seconds_ago(90))
    clique = build_outdated_clique(status=replace(_AT_OLD, update_progress=over))
    plan = plan_pods(clique, build_pods(clique, 0, 1, 2, hash_=OLD), _UPDATING)
    assert len(plan.delete) == 1
    assert plan.status.update_progress is not None
    assert plan.status.update_progress.update_ended_at is None


def test_first_pods_of_a_clique_start_no_update() -> None:
    plan = plan_pods(build_clique(2))
    assert plan.status.update_progress is None
    assert plan.status.current_pod_template_hash == NEW
    assert get_condition(plan, "UpdateInProgress") is None


def test_change_elsewhere_in_the_set_starts_no_update() -> None:
    known = replace(_AT_OLD, current_pod_template_hash=NEW)
    clique = build_clique(2, status=known)
    plan = plan_pods(clique, build_pods(clique, 0, 1), _UPDATING)
    assert plan.is_idle
    assert plan.status.update_progress is None
    assert plan.status.current_pod_clique_set_generation_hash == NEW


def test_update_ends_when_all_pods_are_updated_and_enough_are_ready() -> None:
    started = PodCliqueUpdateProgress(NEW, NEW, seconds_ago(90))
    clique = build_outdated_clique(status=replace(_AT_OLD, update_progress=started))
    starting = plan_pods(
        clique, [*build_pods(clique, 0, 1), build_pod(clique, 2, up=False)], _UPDATING
    )
    assert starting.status.update_progress == started
    plan = plan_pods(clique, build_pods(clique, 0, 1, 2))
    assert plan.status.update_progress == replace(started, update_ended_at=seconds_ago(0))
    assert plan.status.current_pod_template_hash == NEW
    assert get_condition(plan, "MinAvailableBreached") == ("False", "SufficientReadyPods")


@pytest.mark.parametrize(
    ("ended", "taken"), [(None, PodSelection("a")), (seconds_ago(50), None)], ids=["open", "ended"]
)
def test_second_edit_restarts_the_update_with_pods_still_missing(
    ended: str | None, taken: PodSelection | None
) -> None:
    started = PodCliqueUpdateProgress(
        "between", "between", seconds_ago(90), ended, PodSelection("a")
    )
    clique = build_outdated_clique(status=replace(_AT_OLD, update_progress=started))
    plan = plan_pods(clique, build_pods(clique, 0, 1, 2, hash_="between"), build_set())
    assert plan.status.update_progress == PodCliqueUpdateProgress(
        NEW, NEW, seconds_ago(0), None, taken
    )


def test_selected_pods_are_remembered_once() -> None:
    known = PodSelection("b", ("a",))
    started = PodCliqueUpdateProgress(NEW, NEW, seconds_ago(90), None, known)
    clique = build_outdated_clique(status=replace(_AT_OLD, update_progress=started))
    plan = plan_pods(clique, build_pods(clique, 0, 1, 2, hash_=OLD), _UPDATING)
    assert plan.status.update_progress is not None
    name = names.pod("sys-0-w", 0, 0)
    assert plan.status.update_progress.ready_pods_selected_to_update == PodSelection(
        name, ("a", "b")
    )
    again = build_outdated_clique(status=plan.status)
    repeated = plan_pods(again, build_pods(again, 0, 1, 2, hash_=OLD), _UPDATING)
    assert repeated.status.update_progress == plan.status.update_progress


def test_update_without_progress_is_reported_as_stuck() -> None:
    update = RollingUpdate(progress_deadline="1m")
    started = PodCliqueUpdateProgress(NEW, NEW, seconds_ago(90))
    clique = build_outdated_clique(update=update, status=replace(_AT_OLD, update_progress=started))
    pods = [build_pod(clique, 0, up=False), *build_pods(clique, 1, 2, hash_=OLD)]
    plan = plan_pods(clique, pods, _UPDATING)
    assert get_condition(plan, "UpdateInProgress") == ("Unknown", "ProgressDeadlineExceeded")
    assert plan.requeue_after is None


def test_pod_that_becomes_ready_is_progress() -> None:
    update = RollingUpdate(progress_deadline="1m")
    started = PodCliqueUpdateProgress(NEW, NEW, seconds_ago(90))
    clique = build_outdated_clique(update=update, status=replace(_AT_OLD, update_progress=started))
    ready = Condition("Ready", "True", last_transition_time=seconds_ago(20))
    pods = [
        build_pod(clique, 0, node="n", conditions=[ready]),
        build_pod(clique, 1, up=False),
        *build_pods(clique, 2, hash_=OLD),
    ]
    plan = plan_pods(clique, pods, _UPDATING)
    assert get_condition(plan, "UpdateInProgress") == ("True", "UpdateInProgress")
    assert plan.requeue_after == 40


@given(
    replicas=st.integers(1, 6),
    least=st.integers(1, 6),
    unavailable=st.integers(0, 3),
    surge=st.integers(0, 3),
    gaps=st.sets(st.integers(0, 9), max_size=3),
    choices=st.lists(st.integers(0, 9), min_size=40, max_size=40),
)
def test_every_update_ends_within_max_unavailable(
    replicas: int, least: int, unavailable: int, surge: int, gaps: set[int], choices: list[int]
) -> None:
    clique = build_outdated_clique(
        replicas, min(least, replicas), update=build_rolling_update(unavailable, surge)
    )
    indexes = [index for index in range(20) if index not in gaps][:replicas]
    pods = build_pods(clique, *indexes, hash_=OLD)
    missing_at_most = unavailable if unavailable or surge else 1
    plan = plan_pods(clique, pods, _UPDATING)
    for random_choice in [*choices, *[0] * 40]:
        plan = plan_pods(clique, pods, _UPDATING)
        clique = PodClique(clique.metadata, clique.spec, plan.status)
        pods = [pod for pod in apply_plan(clique, pods, plan) if not is_terminating(pod)]
        assert len(pods) <= replicas + surge
        assert sum(map(is_ready, pods)) >= replicas - missing_at_most
        pods = _mark_one_ready(pods, random_choice)
    assert plan.is_idle
    assert all(is_current(clique, pod) and is_ready(pod) for pod in pods)
    assert len(pods) == replicas
    assert plan.status.update_progress is not None
    assert plan.status.update_progress.update_ended_at == seconds_ago(0)
    if surge:
        assert sorted(map(require_pod_index, pods)) == list(range(replicas))


def _mark_one_ready(pods: list[Pod], choice: int) -> list[Pod]:
    waiting = [pod for pod in pods if not is_ready(pod)]
    if not waiting:
        return pods
    chosen = waiting[choice % len(waiting)]
    status = replace(chosen.status, conditions=(Condition("Ready", "True"),))
    ready = Pod(chosen.metadata, replace(chosen.spec, node_name="n"), status)
    return [ready if pod is chosen else pod for pod in pods]
