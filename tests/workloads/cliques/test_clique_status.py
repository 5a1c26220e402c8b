"""What a clique says of itself."""

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueStatus, names
from kilonova.api.grove.parts import LastError
from kilonova.api.grove.podclique import PodCliqueUpdateProgress
from kilonova.api.meta import Condition
from kilonova.workloads.cliques.status import failed_status, has_lost_all
from kilonova.workloads.resources import Pod
from tests.workloads.cliques.clique_values import (
    NEW,
    NOW,
    OLD,
    a_clique,
    a_pod,
    ago,
    condition,
    decided,
    pods,
)

_BREACHED = "MinAvailableBreached"


def test_pods_are_counted() -> None:
    clique = a_clique(5, 1)
    having = [
        *pods(clique, 0),
        a_pod(clique, 1, up=False, hash_=OLD),
        a_pod(clique, 2, gated=True),
        a_pod(clique, 3),
        *pods(clique, 4, ending=True),
    ]
    status = decided(clique, having).status
    assert status.replicas == 4
    assert status.ready_replicas == 1
    assert status.scheduled_replicas == 2
    assert status.schedule_gated_replicas == 1
    assert status.updated_replicas == 3
    assert status.observed_generation == 1
    assert status.current_pod_template_hash == NEW
    assert status.current_pod_clique_set_generation_hash == NEW


def started(pod: Pod) -> Pod:
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
def test_a_clique_is_breached_when_too_few_pods_are_placed_or_can_still_come_up(
    second: str, verdict: tuple[str, str]
) -> None:
    clique = a_clique(3, 2)
    having = {
        "ready": [a_pod(clique, 1, up=True)],
        "starting": [a_pod(clique, 1, up=False)],
        "unplaced": [a_pod(clique, 1)],
        "gone": [],
        "started but not ready": [started(a_pod(clique, 1, up=False))],
        "failed": [a_pod(clique, 1, up=False, exit_code=1)],
        "ended well": [a_pod(clique, 1, up=False, exit_code=0)],
    }[second]
    plan = decided(clique, [*pods(clique, 0), *having])
    assert condition(plan, _BREACHED) == verdict


def test_a_pod_that_failed_once_and_is_ready_again_is_no_breach() -> None:
    clique = a_clique(1)
    plan = decided(clique, pods(clique, 0, exit_code=1))
    assert condition(plan, _BREACHED) == ("False", "SufficientReadyPods")


def test_a_pod_is_counted_once_however_many_things_are_wrong_with_it() -> None:
    clique = a_clique(3, 2)
    broken = started(a_pod(clique, 2, up=False, exit_code=1))
    plan = decided(clique, [*pods(clique, 0, 1), broken])
    assert condition(plan, _BREACHED) == ("False", "SufficientReadyPods")


def test_nobody_knows_during_an_update() -> None:
    progress = PodCliqueUpdateProgress(NEW, NEW, ago(10))
    status = PodCliqueStatus(current_pod_template_hash=OLD, update_progress=progress)
    clique = a_clique(2, status=status)
    plan = decided(clique, pods(clique, 0, hash_=OLD))
    assert condition(plan, _BREACHED) == ("Unknown", "UpdateInProgress")
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
    clique = a_clique(3, 2)
    plan = decided(clique, pods(clique, *placed, up=False))
    assert condition(plan, "PodCliqueScheduled") == verdict


def test_a_clique_scaled_below_its_minimum_needs_no_more_than_it_has() -> None:
    clique = a_clique(1, 2)
    assert condition(decided(clique, pods(clique, 0)), _BREACHED) == (
        "False",
        "SufficientReadyPods",
    )
    nothing = decided(a_clique(0, 2))
    assert condition(nothing, _BREACHED) == ("False", "SufficientReadyPods")
    assert nothing.status.healthy_incarnation is None


def test_the_incarnation_in_which_it_was_healthy_is_remembered() -> None:
    clique = a_clique(1, incarnation=4)
    assert decided(clique).status.healthy_incarnation is None
    healthy = decided(clique, pods(clique, 0)).status
    assert healthy.healthy_incarnation == 4
    anew = a_clique(1, incarnation=5, status=healthy)
    assert decided(anew).status.healthy_incarnation == 4


def test_the_time_of_a_condition_changes_only_with_its_status() -> None:
    clique = a_clique(1)
    known = decided(clique, pods(clique, 0)).status
    aged = tuple(replace(each, last_transition_time=ago(500)) for each in known.conditions)
    clique = a_clique(1, status=replace(known, conditions=aged))
    assert {
        each.last_transition_time for each in decided(clique, pods(clique, 0)).status.conditions
    } == {ago(500)}
    broken = decided(clique, []).status.conditions
    assert {each.last_transition_time for each in broken} == {ago(0)}


def test_a_clique_at_rest_has_nothing_new_to_say() -> None:
    clique = a_clique(2)
    known = decided(clique, pods(clique, 0, 1)).status
    clique = a_clique(2, status=known)
    assert decided(clique, pods(clique, 0, 1)).status == known


def test_only_a_clique_that_stands_alone_says_how_autoscalers_find_its_pods() -> None:
    alone = decided(a_clique(1)).status.hpa_pod_selector
    assert alone == (
        "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=sys,"
        "grove.io/podclique=sys-0-w"
    )
    member = a_clique(1, labels={names.SCALING_GROUP: "sys-0-g"})
    assert decided(member).status.hpa_pod_selector == ""


def test_an_error_is_told_with_the_time_it_was_first_seen() -> None:
    first = failed_status(a_clique(1), decided(a_clique(1)).status, "no quota", NOW)
    assert first.last_errors == (LastError("ERR_SYNC_PODS", "no quota", ago(0)),)
    known = (LastError("ERR_SYNC_PODS", "no quota", ago(60)),)
    clique = a_clique(1, status=PodCliqueStatus(last_errors=known))
    status = decided(clique).status
    assert failed_status(clique, status, "no quota", NOW).last_errors == known
    assert failed_status(clique, status, "other", NOW).last_errors[0].observed_at == ago(0)
    assert status.last_errors == ()


def test_there_are_no_conditions_before_the_spec_has_been_acted_on() -> None:
    clique = a_clique(1)
    failed = failed_status(clique, decided(clique).status, "no quota", NOW)
    assert (failed.observed_generation, failed.conditions) == (None, ())
    later = a_clique(1, status=PodCliqueStatus(observed_generation=1), generation=2)
    failed = failed_status(later, decided(later).status, "no quota", NOW)
    assert failed.observed_generation == 1
    assert failed.conditions


@pytest.mark.parametrize(
    ("replicas", "incarnation", "lost"), [(1, 0, True), (0, 0, False), (1, 1, False)]
)
def test_all_nodes_lost_is_told_unless_somebody_asked_for_it(
    replicas: int, incarnation: int, lost: bool
) -> None:
    healthy = decided(a_clique(1), pods(a_clique(1), 0)).status
    clique = a_clique(replicas, 1, incarnation=incarnation, status=healthy)
    assert has_lost_all(clique, decided(clique).status) is lost


def test_other_conditions_are_left_alone() -> None:
    other = Condition("Inspected", "True")
    clique = a_clique(1, status=PodCliqueStatus(conditions=(other,)))
    assert other in decided(clique).status.conditions
