"""Cliques that run to completion."""

import pytest
from msgspec.structs import replace

from kilonova.api.grove import names
from tests.workloads.controllers.podclique.clique_objects import (
    OLD,
    build_clique,
    build_pod,
    build_pods,
    build_set,
    get_condition,
    list_created_indexes,
    list_deleted_indexes,
    plan_pods,
)


@pytest.mark.parametrize("restart", ["Never", "OnFailure"])
def test_succeeded_pod_is_kept_and_not_replaced(restart: str) -> None:
    clique = build_clique(2, restart=restart)
    plan = plan_pods(
        clique, [*build_pods(clique, 0), build_pod(clique, 1, up=False, phase="Succeeded")]
    )
    assert plan.is_idle
    assert (plan.status.replicas, plan.status.succeeded_replicas) == (2, 1)
    assert get_condition(plan, "Complete") is None
    assert get_condition(plan, "MinAvailableBreached") == ("False", "SufficientReadyPods")


def test_a_clique_is_complete_when_all_pods_have_succeeded() -> None:
    clique = build_clique(2, restart="Never")
    plan = plan_pods(clique, build_pods(clique, 0, 1, up=False, phase="Succeeded"))
    assert plan.is_idle
    assert get_condition(plan, "Complete") == ("True", "AllPodsSucceeded")


def test_complete_clique_stays_complete_when_its_pods_are_deleted() -> None:
    clique = build_clique(2, restart="Never")
    plan = plan_pods(clique, build_pods(clique, 0, 1, up=False, phase="Succeeded"))
    done = build_clique(2, restart="Never", status=plan.status)
    assert plan_pods(done).is_idle
    assert get_condition(plan_pods(done), "Complete") is not None
    assert get_condition(plan_pods(done), "MinAvailableBreached") == (
        "False",
        "SufficientReadyPods",
    )
    restarted = build_clique(2, restart="Never", status=plan.status, incarnation=1)
    assert list_created_indexes(plan_pods(restarted)) == [0, 1]
    assert get_condition(plan_pods(restarted), "Complete") is None
    edited = build_clique(2, restart="Never", status=plan.status, generation=2)
    assert list_created_indexes(plan_pods(edited)) == [0, 1]


def test_a_failed_pod_is_kept_and_replaced_under_another_name() -> None:
    clique = build_clique(2, restart="Never")
    plan = plan_pods(
        clique, [*build_pods(clique, 0), build_pod(clique, 1, up=False, phase="Failed")]
    )
    assert [(each.index, each.name) for each in plan.create] == [(1, names.pod("sys-0-w", 1, 1))]
    assert plan.delete == ()


def test_clique_fails_beyond_the_backoff_limit() -> None:
    clique = build_clique(3, restart="Never")
    failures = [build_pod(clique, 1, attempt, up=False, phase="Failed") for attempt in range(3)]
    done = build_pod(clique, 2, up=False, phase="Succeeded")
    allowed = plan_pods(
        clique, [*build_pods(clique, 0), *failures, done], build_set(backoff_limit=3)
    )
    assert list_created_indexes(allowed) == [1]
    assert get_condition(allowed, "Failed") is None
    plan = plan_pods(clique, [*build_pods(clique, 0), *failures, done], build_set(backoff_limit=2))
    assert (list_created_indexes(plan), list_deleted_indexes(plan)) == ([], [0])
    assert get_condition(plan, "Failed") == ("True", "BackoffLimitExceeded")


def test_six_failures_are_allowed_by_default() -> None:
    clique = build_clique(1, restart="Never")
    failures = [build_pod(clique, 0, attempt, up=False, phase="Failed") for attempt in range(7)]
    assert list_created_indexes(plan_pods(clique, failures[:6])) == [0]
    assert get_condition(plan_pods(clique, failures), "Failed") is not None


def test_failures_of_another_template_or_incarnation_do_not_count() -> None:
    clique = build_clique(1, restart="Never", incarnation=1)
    old = build_pod(clique, 0, up=False, phase="Failed", hash_=OLD)
    earlier = build_pod(
        clique, 0, 1, up=False, phase="Failed", annotations={names.INCARNATION: "0"}
    )
    plan = plan_pods(clique, [old, earlier], build_set(backoff_limit=0))
    assert (list_deleted_indexes(plan), list_created_indexes(plan)) == ([0, 0], [0])


def test_scale_in_keeps_succeeded_pods() -> None:
    clique = build_clique(1, restart="Never")
    pods = [*build_pods(clique, 0), build_pod(clique, 1, up=False, phase="Succeeded")]
    assert list_deleted_indexes(plan_pods(clique, pods)) == [0]


def test_succeeded_pods_are_not_replaced_in_an_update() -> None:
    clique = build_clique(1, restart="Never")
    status = replace(clique.status, current_pod_template_hash=OLD)
    clique = build_clique(1, restart="Never", status=status)
    pods = build_pods(clique, 0, up=False, phase="Succeeded", hash_=OLD)
    assert plan_pods(clique, pods, build_set(updating=True)).is_idle
