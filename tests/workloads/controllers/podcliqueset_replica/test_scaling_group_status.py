"""The status of scaling groups."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodCliqueScalingGroupStatus, PodCliqueSet
from kilonova.api.grove.common import LastError, RollingUpdate
from kilonova.api.grove.podcliqueset import UpdateStrategy
from kilonova.api.grove.scaling_group import ReplicaSelection
from kilonova.kube.status import find_condition
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.state import (
    compute_group_states,
)
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.status import (
    GroupStatusUpdate,
    build_group_status,
)
from kilonova.workloads.controllers.podcliqueset_replica.target_revision import (
    select_target_revision,
)
from tests.workloads.api_objects import clique, group, pod_clique_set
from tests.workloads.controllers.podcliqueset_replica.simulated_replica import (
    NOW,
    SimulatedReplica,
    seconds_ago,
    start_replica,
    with_images,
    with_updating_replicas,
)


def build_set(
    min_available: int = 1, how: RollingUpdate | None = None, **rest: Any
) -> PodCliqueSet:
    members = group("x", "b", "c", replicas=2, min_available=min_available, rolling_update=how)
    return pod_clique_set(clique("a"), clique("b"), clique("c", 2, 1), groups=[members], **rest)


def build_report(
    replica: SimulatedReplica, now: datetime = NOW, **options: Any
) -> GroupStatusUpdate:
    observed = replica.observe()
    revision = select_target_revision(observed)
    assert revision is not None
    (group_replicas,) = compute_group_states(observed, revision)
    assert group_replicas.group is not None
    found = build_group_status(
        observed, group_replicas, group_replicas.group, revision, now, **options
    )
    replica.replace_parts("PodCliqueScalingGroup", "sys-0-x", status=found.status)
    return found


def compute_status(replica: SimulatedReplica, **options: Any) -> PodCliqueScalingGroupStatus:
    return build_report(replica, **options).status


def get_condition(found: PodCliqueScalingGroupStatus, type_: str) -> tuple[str, str] | None:
    each = find_condition(found.conditions, type_)
    return None if each is None else (each.status, each.reason)


def test_status_of_a_healthy_group_has_all_fields() -> None:
    replica = start_replica(build_set())
    found = compute_status(replica)
    revision = replica.record_revision()
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
    assert get_condition(found, "MinAvailableBreached") == (
        "False",
        "SufficientAvailablePodCliqueScalingGroupReplicas",
    )
    assert get_condition(found, "UpdateInProgress") is None


def test_cliques_without_status_do_not_count_as_healthy() -> None:
    replica = SimulatedReplica(build_set())
    replica.converge()
    found = compute_status(replica)
    assert (found.replicas, found.available_replicas) == (2, 0)
    assert get_condition(found, "MinAvailableBreached") == (
        "True",
        "InsufficientAvailablePodCliqueScalingGroupReplicas",
    )


def test_replicas_are_those_requested_while_being_created() -> None:
    replica = start_replica(build_set())
    (found,) = replica.observe().groups.values()
    replica.replace_parts("PodCliqueScalingGroup", "sys-0-x", spec=replace(found.spec, replicas=5))
    status = compute_status(replica)
    assert (status.replicas, status.available_replicas) == (5, 2)


@pytest.mark.parametrize(("least", "breached"), [(1, "False"), (2, "True")])
def test_group_is_breached_when_too_few_group_replicas_are_healthy(
    least: int, breached: str
) -> None:
    replica = start_replica(build_set(least))
    replica.lose_pods("sys-0-x-1-c")
    found = compute_status(replica)
    condition = get_condition(found, "MinAvailableBreached")
    assert condition is not None
    assert condition[0] == breached
    assert (found.available_replicas, found.scheduled_replicas) == (1, 1)


def test_condition_time_is_its_last_transition() -> None:
    replica = start_replica(build_set(2))
    compute_status(replica)
    replica.lose_pods("sys-0-x-1-c")
    first = build_report(replica, NOW + timedelta(seconds=5)).status
    again = build_report(replica, NOW + timedelta(seconds=50)).status
    found = find_condition(again.conditions, "MinAvailableBreached")
    assert found is not None
    assert found.last_transition_time == seconds_ago(-5)
    assert first.conditions == again.conditions


def test_termination_is_reported_until_enough_have_recovered() -> None:
    replica = start_replica(build_set())
    status = compute_status(replica, terminating=True)
    assert get_condition(status, "GangTerminationInProgress") == ("True", "GangTerminationActive")
    replica.converge(cliques_to_restart=replica.cliques)
    assert get_condition(compute_status(replica), "GangTerminationInProgress") is not None
    replica.start_pods("sys-0-x-1-b", "sys-0-x-1-c")
    assert get_condition(compute_status(replica), "GangTerminationInProgress") is None


def test_update_is_reported_from_beginning_to_end() -> None:
    replica = start_replica(build_set())
    compute_status(replica)
    old = replica.record_revision().hash
    replica.edit(with_updating_replicas(with_images(replica.set_, b="new"), 0))
    replica.converge()
    started = compute_status(replica)
    progress = started.update_progress
    assert progress is not None
    assert progress.pod_clique_set_generation_hash == replica.record_revision().hash
    assert (progress.update_started_at, progress.update_ended_at) == (seconds_ago(0), None)
    assert progress.available_replicas_at_start == 2
    assert (progress.updated_pod_cliques_count, progress.total_pod_cliques_count) == (0, 4)
    assert progress.ready_replica_indices_selected_to_update == ReplicaSelection(0)
    assert started.current_pod_clique_set_generation_hash == old
    assert get_condition(started, "UpdateInProgress") == ("True", "UpdateInProgress")
    assert get_condition(started, "MinAvailableBreached") == ("Unknown", "UpdateInProgress")
    replica.start_pods()
    replica.converge()
    half = compute_status(replica)
    assert half.updated_replicas == 1
    assert half.update_progress is not None
    assert half.update_progress.updated_pod_cliques_count == 2
    assert half.update_progress.ready_replica_indices_selected_to_update == ReplicaSelection(
        1, (0,)
    )
    replica.start_pods()
    ended = compute_status(replica)
    assert ended.update_progress is not None
    assert ended.update_progress.update_ended_at == seconds_ago(0)
    assert ended.update_progress.ready_replica_indices_selected_to_update is None
    assert ended.updated_replicas == 2
    assert ended.current_pod_clique_set_generation_hash == replica.record_revision().hash
    assert get_condition(ended, "UpdateInProgress") == ("False", "UpdateCompleted")
    assert get_condition(ended, "MinAvailableBreached") == (
        "False",
        "SufficientAvailablePodCliqueScalingGroupReplicas",
    )


def test_edit_elsewhere_ends_the_group_update_at_once() -> None:
    replica = start_replica(build_set())
    compute_status(replica)
    replica.edit(with_updating_replicas(with_images(replica.set_, a="new"), 0))
    replica.converge()
    found = compute_status(replica)
    assert found.update_progress is not None
    assert found.update_progress.update_ended_at is not None
    assert found.current_pod_clique_set_generation_hash == replica.record_revision().hash


def test_on_delete_update_of_a_group_ends_at_once() -> None:
    replica = start_replica(build_set(update_strategy=UpdateStrategy("OnDelete")))
    compute_status(replica)
    replica.edit(with_images(replica.set_, b="new"))
    replica.converge()
    found = compute_status(replica)
    assert found.update_progress is not None
    assert found.update_progress.update_ended_at == seconds_ago(0)
    assert found.updated_replicas == 0
    assert get_condition(found, "MinAvailableBreached") == (
        "False",
        "SufficientAvailablePodCliqueScalingGroupReplicas",
    )


def test_group_update_without_progress_is_reported_as_stuck() -> None:
    replica = start_replica(build_set(how=RollingUpdate(progress_deadline="5m")))
    compute_status(replica)
    replica.edit(with_updating_replicas(with_images(replica.set_, b="bad"), 0))
    replica.converge()
    replica.pods = [pod for pod in replica.pods if "sys-0-x-0" not in pod.metadata.name]
    assert build_report(replica).requeue_after == 300
    late = build_report(replica, NOW + timedelta(minutes=5))
    assert get_condition(late.status, "UpdateInProgress") == ("Unknown", "ProgressDeadlineExceeded")
    assert late.requeue_after is None


def test_error_is_reported_with_its_first_time_and_removed() -> None:
    replica = start_replica(build_set())
    compute_status(replica)
    first = compute_status(replica, error=LastError("ERR", "no", seconds_ago(0)))
    assert first.last_errors == (LastError("ERR", "no", seconds_ago(0)),)
    again = compute_status(replica, error=LastError("ERR", "no", seconds_ago(-60)))
    assert again.last_errors == first.last_errors
    assert compute_status(replica).last_errors == ()


def test_failed_generation_is_not_reported_as_observed() -> None:
    replica = start_replica(build_set())
    compute_status(replica)
    live = replica.groups["sys-0-x"]
    replica.replace_parts(
        "PodCliqueScalingGroup", "sys-0-x", metadata=replace(live.metadata, generation=2)
    )
    assert (
        compute_status(replica, error=LastError("ERR", "no", seconds_ago(0))).observed_generation
        == 1
    )
    assert compute_status(replica).observed_generation == 2
