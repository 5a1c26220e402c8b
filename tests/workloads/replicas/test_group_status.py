"""What is told of scaling groups."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueScalingGroupStatus, PodCliqueSet
from kilonova.api.grove.parts import LastError, RollingUpdate
from kilonova.api.grove.podcliqueset import UpdateStrategy
from kilonova.api.grove.scalinggroup import SelectedReplicas
from kilonova.workloads.conditions import find_condition
from kilonova.workloads.replicas.groupstatus import GroupReport, group_report
from kilonova.workloads.replicas.revision import revision_of_replica
from kilonova.workloads.replicas.units import units_of
from tests.workloads.builders import clique, group, pod_clique_set
from tests.workloads.replicas.replica_values import (
    NOW,
    World,
    ago,
    started,
    turn,
    with_images,
)


def a_set(least: int = 1, how: RollingUpdate | None = None, **rest: Any) -> PodCliqueSet:
    members = group("x", "b", "c", replicas=2, min_available=least, rolling_update=how)
    return pod_clique_set(clique("a"), clique("b"), clique("c", 2, 1), groups=[members], **rest)


def report(world: World, now: datetime = NOW, **how: Any) -> GroupReport:
    seen = world.seen()
    revision = revision_of_replica(seen)
    assert revision is not None
    (units,) = units_of(seen, revision)
    assert units.group is not None
    found = group_report(seen, units, units.group, revision, now, **how)
    world.change("PodCliqueScalingGroup", "sys-0-x", status=found.status)
    return found


def status(world: World, **how: Any) -> PodCliqueScalingGroupStatus:
    return report(world, **how).status


def condition(found: PodCliqueScalingGroupStatus, type_: str) -> tuple[str, str] | None:
    each = find_condition(found.conditions, type_)
    return None if each is None else (each.status, each.reason)


def test_all_is_told_of_a_group_that_is_well() -> None:
    world = started(a_set())
    found = status(world)
    revision = world.record()
    assert (
        found.replicas,
        found.scheduled_replicas,
        found.available_replicas,
        found.updated_replicas,
    ) == (2, 2, 2, 2)
    assert found.observed_generation == 1
    assert found.current_pod_clique_set_generation_hash == revision.hash
    assert found.update_progress is None
    assert found.selector == (
        "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=sys,"
        "grove.io/podcliquescalinggroup=sys-0-x"
    )
    assert condition(found, "MinAvailableBreached") == (
        "False",
        "SufficientAvailablePodCliqueScalingGroupReplicas",
    )
    assert condition(found, "UpdateInProgress") is None


def test_nothing_is_promised_of_cliques_that_have_not_said_how_they_are() -> None:
    world = World(a_set())
    world.settle()
    found = status(world)
    assert (found.replicas, found.available_replicas) == (2, 0)
    assert condition(found, "MinAvailableBreached") == (
        "True",
        "InsufficientAvailablePodCliqueScalingGroupReplicas",
    )


def test_replicas_are_those_asked_for_though_they_are_still_being_made() -> None:
    world = started(a_set())
    (found,) = world.seen().groups.values()
    world.change("PodCliqueScalingGroup", "sys-0-x", spec=replace(found.spec, replicas=5))
    told = status(world)
    assert (told.replicas, told.available_replicas) == (5, 2)


@pytest.mark.parametrize(("least", "breached"), [(1, "False"), (2, "True")])
def test_group_is_breached_when_too_few_units_are_well(least: int, breached: str) -> None:
    world = started(a_set(least))
    world.lose("sys-0-x-1-c")
    found = status(world)
    told = condition(found, "MinAvailableBreached")
    assert told is not None
    assert told[0] == breached
    assert (found.available_replicas, found.scheduled_replicas) == (1, 1)


def test_time_of_a_condition_is_when_it_last_became_so() -> None:
    world = started(a_set(2))
    status(world)
    world.lose("sys-0-x-1-c")
    first = report(world, NOW + timedelta(seconds=5)).status
    again = report(world, NOW + timedelta(seconds=50)).status
    found = find_condition(again.conditions, "MinAvailableBreached")
    assert found is not None
    assert found.last_transition_time == ago(-5)
    assert first.conditions == again.conditions


def test_termination_is_told_until_enough_have_come_back() -> None:
    world = started(a_set())
    told = status(world, terminates=True)
    assert condition(told, "GangTerminationInProgress") == ("True", "GangTerminationActive")
    world.settle(anew=world.cliques)
    assert condition(status(world), "GangTerminationInProgress") is not None
    world.bring_up("sys-0-x-1-b", "sys-0-x-1-c")
    assert condition(status(world), "GangTerminationInProgress") is None


def test_update_is_told_from_beginning_to_end() -> None:
    world = started(a_set())
    status(world)
    old = world.record().hash
    world.edit(turn(with_images(world.set_, b="new"), 0))
    world.settle()
    begun = status(world)
    progress = begun.update_progress
    assert progress is not None
    assert progress.pod_clique_set_generation_hash == world.record().hash
    assert (progress.update_started_at, progress.update_ended_at) == (ago(0), None)
    assert progress.available_replicas_at_start == 2
    assert (progress.updated_pod_cliques_count, progress.total_pod_cliques_count) == (0, 4)
    assert progress.ready_replica_indices_selected_to_update == SelectedReplicas(0)
    assert begun.current_pod_clique_set_generation_hash == old
    assert condition(begun, "UpdateInProgress") == ("True", "UpdateInProgress")
    assert condition(begun, "MinAvailableBreached") == ("Unknown", "UpdateInProgress")
    world.bring_up()
    world.settle()
    half = status(world)
    assert half.updated_replicas == 1
    assert half.update_progress is not None
    assert half.update_progress.updated_pod_cliques_count == 2
    assert half.update_progress.ready_replica_indices_selected_to_update == SelectedReplicas(
        1, (0,)
    )
    world.bring_up()
    ended = status(world)
    assert ended.update_progress is not None
    assert ended.update_progress.update_ended_at == ago(0)
    assert ended.update_progress.ready_replica_indices_selected_to_update is None
    assert ended.updated_replicas == 2
    assert ended.current_pod_clique_set_generation_hash == world.record().hash
    assert condition(ended, "UpdateInProgress") == ("False", "UpdateCompleted")
    assert condition(ended, "MinAvailableBreached") == (
        "False",
        "SufficientAvailablePodCliqueScalingGroupReplicas",
    )


def test_edit_that_leaves_the_group_alone_is_over_at_once() -> None:
    world = started(a_set())
    status(world)
    world.edit(turn(with_images(world.set_, a="new"), 0))
    world.settle()
    found = status(world)
    assert found.update_progress is not None
    assert found.update_progress.update_ended_at is not None
    assert found.current_pod_clique_set_generation_hash == world.record().hash


def test_update_that_waits_for_deletion_ends_when_it_begins() -> None:
    world = started(a_set(update_strategy=UpdateStrategy("OnDelete")))
    status(world)
    world.edit(with_images(world.set_, b="new"))
    world.settle()
    found = status(world)
    assert found.update_progress is not None
    assert found.update_progress.update_ended_at == ago(0)
    assert found.updated_replicas == 0
    assert condition(found, "MinAvailableBreached") == (
        "False",
        "SufficientAvailablePodCliqueScalingGroupReplicas",
    )


def test_update_that_gets_nowhere_is_said_to_be_stuck() -> None:
    world = started(a_set(how=RollingUpdate(progress_deadline="5m")))
    status(world)
    world.edit(turn(with_images(world.set_, b="bad"), 0))
    world.settle()
    world.pods = [pod for pod in world.pods if "sys-0-x-0" not in pod.metadata.name]
    assert report(world).after == 300
    late = report(world, NOW + timedelta(minutes=5))
    assert condition(late.status, "UpdateInProgress") == ("Unknown", "ProgressDeadlineExceeded")
    assert late.after is None


def test_error_is_told_with_the_time_it_was_first_seen_and_taken_back() -> None:
    world = started(a_set())
    status(world)
    first = status(world, error=LastError("ERR", "no", ago(0)))
    assert first.last_errors == (LastError("ERR", "no", ago(0)),)
    again = status(world, error=LastError("ERR", "no", ago(-60)))
    assert again.last_errors == first.last_errors
    assert status(world).last_errors == ()


def test_generation_that_could_not_be_acted_on_is_not_told_as_seen() -> None:
    world = started(a_set())
    status(world)
    live = world.groups["sys-0-x"]
    world.change("PodCliqueScalingGroup", "sys-0-x", metadata=replace(live.metadata, generation=2))
    assert status(world, error=LastError("ERR", "no", ago(0))).observed_generation == 1
    assert status(world).observed_generation == 2
