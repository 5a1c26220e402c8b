"""The status of a clique."""

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueStatus, names
from kilonova.api.grove.common import LastError
from kilonova.api.grove.podclique import PodCliqueUpdateProgress
from kilonova.api.meta import Condition
from kilonova.workloads.controllers.podclique.status import build_error_status, has_lost_all
from kilonova.workloads.resources import Pod
from tests.workloads.controllers.podclique.clique_objects import (
    NEW,
    NOW,
    OLD,
    build_clique,
    build_pod,
    build_pods,
    get_condition,
    plan_pods,
    seconds_ago,
)

_BREACHED = "MinAvailableBreached"


def test_pods_are_counted() -> None:
    clique = build_clique(5, 1)
    pods = [
        *build_pods(clique, 0),
        build_pod(clique, 1, up=False, hash_=OLD),
        build_pod(clique, 2, gated=True),
        build_pod(clique, 3),
        *build_pods(clique, 4, ending=True),
    ]
    status = plan_pods(clique, pods).status
    assert status.replicas == 4
    assert status.ready_replicas == 1
    assert status.scheduled_replicas == 2
    assert status.schedule_gated_replicas == 1
    assert status.updated_replicas == 3
    assert status.observed_generation == 1
    assert status.current_pod_template_hash == NEW
    assert status.current_pod_clique_set_generation_hash == NEW


def mark_started(pod: Pod) -> Pod:
    (container,) = pod.status.container_statuses
    running = replace(container, started=True)
    return Pod(pod.metadata, pod.spec, replace(pod.status, container_statuses=(running,)))


@pytest.mark.parametrize(
    ("second", "verdict"),
    [
        ("ready", ("False", "SufficientReadyPods")),
        ("starting", ("False", "SufficientReadyPods")),
        ("unplaced", ("True", "ScheduledReplicasBelowMinAvailable")),
        ("gone", ("True", "ScheduledReplicasBelowMinAvailable")),
        ("started but not ready", ("True", "InsufficientReadyPods")),
        ("failed", ("True", "InsufficientReadyPods")),
        ("ended well", ("False", "SufficientReadyPods")),
    ],
)
def test_clique_is_breached_when_too_few_pods_are_scheduled_or_can_become_ready(
    second: str, verdict: tuple[str, str]
) -> None:
    clique = build_clique(3, 2)
    pods = {
        "ready": [build_pod(clique, 1, up=True)],
        "starting": [build_pod(clique, 1, up=False)],
        "unplaced": [build_pod(clique, 1)],
        "gone": [],
        "started but not ready": [mark_started(build_pod(clique, 1, up=False))],
        "failed": [build_pod(clique, 1, up=False, exit_code=1)],
        "ended well": [build_pod(clique, 1, up=False, exit_code=0)],
    }[second]
    plan = plan_pods(clique, [*build_pods(clique, 0), *pods])
    assert get_condition(plan, _BREACHED) == verdict


def test_restarted_ready_pod_is_no_breach() -> None:
    clique = build_clique(1)
    plan = plan_pods(clique, build_pods(clique, 0, exit_code=1))
    assert get_condition(plan, _BREACHED) == ("False", "SufficientReadyPods")


def test_pod_with_several_problems_is_counted_once() -> None:
    clique = build_clique(3, 2)
    broken = mark_started(build_pod(clique, 2, up=False, exit_code=1))
    plan = plan_pods(clique, [*build_pods(clique, 0, 1), broken])
    assert get_condition(plan, _BREACHED) == ("False", "SufficientReadyPods")


def test_availability_is_unknown_during_an_update() -> None:
    progress = PodCliqueUpdateProgress(NEW, NEW, seconds_ago(10))
    status = PodCliqueStatus(current_pod_template_hash=OLD, update_progress=progress)
    clique = build_clique(2, status=status)
    plan = plan_pods(clique, build_pods(clique, 0, hash_=OLD))
    assert get_condition(plan, _BREACHED) == ("Unknown", "UpdateInProgress")
    assert plan.status.healthy_incarnation is None


@pytest.mark.parametrize(
    ("placed", "verdict"),
    [
        ([0], ("False", "InsufficientScheduledPods")),
        ([0, 1], ("True", "SufficientScheduledPods")),
    ],
)
def test_a_clique_is_scheduled_when_enough_pods_have_nodes(
    placed: list[int], verdict: tuple[str, str]
) -> None:
    clique = build_clique(3, 2)
    plan = plan_pods(clique, build_pods(clique, *placed, up=False))
    assert get_condition(plan, "PodCliqueScheduled") == verdict


def test_clique_scaled_below_min_available_is_not_breached() -> None:
    clique = build_clique(1, 2)
    assert get_condition(plan_pods(clique, build_pods(clique, 0)), _BREACHED) == (
        "False",
        "SufficientReadyPods",
    )
    nothing = plan_pods(build_clique(0, 2))
    assert get_condition(nothing, _BREACHED) == ("False", "SufficientReadyPods")
    assert nothing.status.healthy_incarnation is None


def test_the_incarnation_in_which_it_was_healthy_is_remembered() -> None:
    clique = build_clique(1, incarnation=4)
    assert plan_pods(clique).status.healthy_incarnation is None
    healthy = plan_pods(clique, build_pods(clique, 0)).status
    assert healthy.healthy_incarnation == 4
    restarted = build_clique(1, incarnation=5, status=healthy)
    assert plan_pods(restarted).status.healthy_incarnation == 4


def test_the_time_of_a_condition_changes_only_with_its_status() -> None:
    clique = build_clique(1)
    known = plan_pods(clique, build_pods(clique, 0)).status
    aged = tuple(replace(each, last_transition_time=seconds_ago(500)) for each in known.conditions)
    clique = build_clique(1, status=replace(known, conditions=aged))
    assert {
        each.last_transition_time
        for each in plan_pods(clique, build_pods(clique, 0)).status.conditions
    } == {seconds_ago(500)}
    broken = plan_pods(clique, []).status.conditions
    assert {each.last_transition_time for each in broken} == {seconds_ago(0)}


def test_idle_clique_has_an_unchanged_status() -> None:
    clique = build_clique(2)
    known = plan_pods(clique, build_pods(clique, 0, 1)).status
    clique = build_clique(2, status=known)
    assert plan_pods(clique, build_pods(clique, 0, 1)).status == known


def test_only_a_clique_that_is_standalone_has_an_autoscaler_selector() -> None:
    alone = plan_pods(build_clique(1)).status.hpa_pod_selector
    assert alone == (
        "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=sys,"
        "grove.io/podclique=sys-0-w"
    )
    member = build_clique(1, labels={names.SCALING_GROUP: "sys-0-g"})
    assert plan_pods(member).status.hpa_pod_selector == ""


def test_an_error_is_reported_with_the_time_it_was_first_seen() -> None:
    first = build_error_status(build_clique(1), plan_pods(build_clique(1)).status, "no quota", NOW)
    assert first.last_errors == (LastError("ERR_SYNC_PODS", "no quota", seconds_ago(0)),)
    known = (LastError("ERR_SYNC_PODS", "no quota", seconds_ago(60)),)
    clique = build_clique(1, status=PodCliqueStatus(last_errors=known))
    status = plan_pods(clique).status
    assert build_error_status(clique, status, "no quota", NOW).last_errors == known
    assert build_error_status(clique, status, "other", NOW).last_errors[
        0
    ].observed_at == seconds_ago(0)
    assert status.last_errors == ()


def test_no_conditions_before_the_first_successful_reconcile() -> None:
    clique = build_clique(1)
    failed = build_error_status(clique, plan_pods(clique).status, "no quota", NOW)
    assert (failed.observed_generation, failed.conditions) == (None, ())
    later = build_clique(1, status=PodCliqueStatus(observed_generation=1), generation=2)
    failed = build_error_status(later, plan_pods(later).status, "no quota", NOW)
    assert failed.observed_generation == 1
    assert failed.conditions


@pytest.mark.parametrize(
    ("replicas", "incarnation", "lost"), [(1, 0, True), (0, 0, False), (1, 1, False)]
)
def test_all_nodes_lost_is_reported_unless_it_was_requested(
    replicas: int, incarnation: int, lost: bool
) -> None:
    healthy = plan_pods(build_clique(1), build_pods(build_clique(1), 0)).status
    clique = build_clique(replicas, 1, incarnation=incarnation, status=healthy)
    assert has_lost_all(clique, plan_pods(clique).status) is lost


def test_other_conditions_are_left_alone() -> None:
    other = Condition("Inspected", "True")
    clique = build_clique(1, status=PodCliqueStatus(conditions=(other,)))
    assert other in plan_pods(clique).status.conditions
