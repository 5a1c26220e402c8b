"""Cliques whose pods run to an end."""

import pytest
from msgspec.structs import replace

from kilonova.api.grove import names
from tests.workloads.cliques.clique_values import (
    OLD,
    a_clique,
    a_pod,
    a_set,
    condition,
    decided,
    made,
    pods,
    removed,
)


@pytest.mark.parametrize("restart", ["Never", "OnFailure"])
def test_a_pod_that_succeeded_is_kept_and_not_replaced(restart: str) -> None:
    clique = a_clique(2, restart=restart)
    plan = decided(clique, [*pods(clique, 0), a_pod(clique, 1, up=False, phase="Succeeded")])
    assert plan.is_idle
    assert (plan.status.replicas, plan.status.succeeded_replicas) == (2, 1)
    assert condition(plan, "Complete") is None
    assert condition(plan, "MinAvailableBreached") == ("False", "SufficientReadyPods")


def test_a_clique_is_complete_when_all_pods_have_succeeded() -> None:
    clique = a_clique(2, restart="Never")
    plan = decided(clique, pods(clique, 0, 1, up=False, phase="Succeeded"))
    assert plan.is_idle
    assert condition(plan, "Complete") == ("True", "AllPodsSucceeded")


def test_a_complete_clique_stays_so_when_its_pods_are_cleared_away() -> None:
    clique = a_clique(2, restart="Never")
    plan = decided(clique, pods(clique, 0, 1, up=False, phase="Succeeded"))
    done = a_clique(2, restart="Never", status=plan.status)
    assert decided(done).is_idle
    assert condition(decided(done), "Complete") is not None
    assert condition(decided(done), "MinAvailableBreached") == ("False", "SufficientReadyPods")
    anew = a_clique(2, restart="Never", status=plan.status, incarnation=1)
    assert made(decided(anew)) == [0, 1]
    assert condition(decided(anew), "Complete") is None
    edited = a_clique(2, restart="Never", status=plan.status, generation=2)
    assert made(decided(edited)) == [0, 1]


def test_a_failed_pod_is_kept_and_replaced_under_another_name() -> None:
    clique = a_clique(2, restart="Never")
    plan = decided(clique, [*pods(clique, 0), a_pod(clique, 1, up=False, phase="Failed")])
    assert [(each.index, each.name) for each in plan.create] == [(1, names.pod("sys-0-w", 1, 1))]
    assert plan.delete == ()


def test_more_failures_than_allowed_are_the_end() -> None:
    clique = a_clique(3, restart="Never")
    failures = [a_pod(clique, 1, attempt, up=False, phase="Failed") for attempt in range(3)]
    done = a_pod(clique, 2, up=False, phase="Succeeded")
    allowed = decided(clique, [*pods(clique, 0), *failures, done], a_set(backoff_limit=3))
    assert made(allowed) == [1]
    assert condition(allowed, "Failed") is None
    plan = decided(clique, [*pods(clique, 0), *failures, done], a_set(backoff_limit=2))
    assert (made(plan), removed(plan)) == ([], [0])
    assert condition(plan, "Failed") == ("True", "BackoffLimitExceeded")


def test_six_failures_are_allowed_unless_it_is_said() -> None:
    clique = a_clique(1, restart="Never")
    failures = [a_pod(clique, 0, attempt, up=False, phase="Failed") for attempt in range(7)]
    assert made(decided(clique, failures[:6])) == [0]
    assert condition(decided(clique, failures), "Failed") is not None


def test_failures_of_another_template_or_incarnation_do_not_count() -> None:
    clique = a_clique(1, restart="Never", incarnation=1)
    old = a_pod(clique, 0, up=False, phase="Failed", hash_=OLD)
    earlier = a_pod(clique, 0, 1, up=False, phase="Failed", annotations={names.INCARNATION: "0"})
    plan = decided(clique, [old, earlier], a_set(backoff_limit=0))
    assert (removed(plan), made(plan)) == ([0, 0], [0])


def test_scale_in_keeps_what_is_done() -> None:
    clique = a_clique(1, restart="Never")
    having = [*pods(clique, 0), a_pod(clique, 1, up=False, phase="Succeeded")]
    assert removed(decided(clique, having)) == [0]


def test_what_is_done_is_not_done_again_in_an_update() -> None:
    clique = a_clique(1, restart="Never")
    status = replace(clique.status, current_pod_template_hash=OLD)
    clique = a_clique(1, restart="Never", status=status)
    having = pods(clique, 0, up=False, phase="Succeeded", hash_=OLD)
    assert decided(clique, having, a_set(turn=True)).is_idle
