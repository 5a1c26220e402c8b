"""The status of a scaling group. Pure."""

from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.durations import parse_duration
from kilonova.api.grove import PodCliqueScalingGroup, PodCliqueScalingGroupStatus, names
from kilonova.api.grove.common import LastError
from kilonova.api.grove.scaling_group import ReplicaSelection, ScalingGroupUpdateProgress
from kilonova.api.meta import Condition
from kilonova.api.times import add_seconds, format_rfc3339, parse_time
from kilonova.kube.status import with_condition, without_condition
from kilonova.workloads.controllers.podcliqueset_replica.observed import ObservedReplica
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.state import (
    GroupReplica,
    ScalingGroupState,
)
from kilonova.workloads.keys import get_incarnation
from kilonova.workloads.pods.classification import is_current
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.status.condition_types import MIN_AVAILABLE_BREACHED, UPDATE_IN_PROGRESS
from kilonova.workloads.update_strategy import is_on_delete

GANG_TERMINATION_IN_PROGRESS = "GangTerminationInProgress"


@dataclass(frozen=True, slots=True)
class GroupStatusUpdate:
    """The new status of a group, and when to compute it again."""

    status: PodCliqueScalingGroupStatus
    requeue_after: float | None = None


def build_group_status(
    observed: ObservedReplica,
    group_state: ScalingGroupState,
    group: PodCliqueScalingGroup,
    revision: SetRevision,
    now: datetime,
    *,
    terminating: bool = False,
    error: LastError | None = None,
) -> GroupStatusUpdate:
    """The status of a group; `terminating` if the whole replica is about to be restarted."""
    old = group.status
    progress = _compute_update_progress(observed, group_state, old, revision, now)
    is_updating = progress is not None and progress.update_ended_at is None
    deadline = _compute_progress_deadline(observed, group_state, progress) if is_updating else None
    is_stuck = deadline is not None and deadline <= now
    generation = group.metadata.generation
    conditions = _set_breach_condition(group_state, old.conditions, is_updating, generation, now)
    conditions = _set_termination_condition(group_state, conditions, terminating, generation, now)
    if progress is not None:
        conditions = _set_update_condition(conditions, is_updating, is_stuck, generation, now)
    is_settled = not old.current_pod_clique_set_generation_hash or not (
        is_updating or any(each.is_outdated for each in group_state.group_replicas)
    )
    status = replace(
        old,
        scheduled_replicas=sum(each.is_scheduled for each in group_state.group_replicas),
        available_replicas=sum(each.is_available for each in group_state.group_replicas),
        updated_replicas=sum(each.is_updated for each in group_state.group_replicas),
        replicas=group.spec.replicas,
        selector=_build_selector(observed.set_.metadata.name, group_state.name),
        # A generation that was not applied is not reported as observed.
        observed_generation=old.observed_generation if error else generation,
        conditions=conditions,
        last_errors=(_keep_first_occurrence(old, error),) if error else (),
        current_pod_clique_set_generation_hash=(
            revision.hash if is_settled else old.current_pod_clique_set_generation_hash
        ),
        update_progress=progress,
    )
    times = [deadline, *(each.unplaced_from for each in group_state.group_replicas if is_updating)]
    delays = [(each - now).total_seconds() for each in times if each is not None and each > now]
    return GroupStatusUpdate(status, min(delays, default=None))


def build_error_status(
    group: PodCliqueScalingGroup, error: LastError
) -> PodCliqueScalingGroupStatus:
    """The status of a group whose replica is not reconciled: unchanged, with the error."""
    return replace(group.status, last_errors=(_keep_first_occurrence(group.status, error),))


def _compute_update_progress(
    observed: ObservedReplica,
    group_state: ScalingGroupState,
    old: PodCliqueScalingGroupStatus,
    revision: SetRevision,
    now: datetime,
) -> ScalingGroupUpdateProgress | None:
    """The progress of the update; None if there has been none. Under OnDelete it ends at once."""
    known, current = old.update_progress, old.current_pod_clique_set_generation_hash
    is_known = known is not None and known.pod_clique_set_generation_hash == revision.hash
    if not is_known and current in ("", revision.hash):
        return known
    time = format_rfc3339(now)
    is_open = known is not None and known.update_ended_at is None
    available_at_start = (
        known.available_replicas_at_start if known is not None and is_open else None
    )
    if available_at_start is None:
        # Pods may be gone already: the last statuses of the group and its cliques are from before.
        available_at_start = max(
            group_state.available_replicas, group_state.healthy_replicas, old.available_replicas
        )
    progress = (
        known
        if is_known and known is not None
        else ScalingGroupUpdateProgress(
            update_started_at=time,
            pod_clique_set_generation_hash=revision.hash,
            available_replicas_at_start=available_at_start,
        )
    )
    if any(each.is_outdated for each in group_state.group_replicas) and not is_on_delete(
        observed.set_
    ):
        progress = replace(
            progress, update_ended_at=None, available_replicas_at_start=available_at_start
        )
    if progress.update_ended_at is None and (
        is_on_delete(observed.set_) or _is_update_done(group_state)
    ):
        progress = replace(progress, update_ended_at=time)
    return replace(
        progress,
        updated_pod_cliques_count=group_state.updated_cliques,
        total_pod_cliques_count=group_state.replica_count * len(group_state.template.clique_names),
        ready_replica_indices_selected_to_update=(
            None if progress.update_ended_at else _list_selected_replicas(group_state)
        ),
    )


def _is_update_done(group_state: ScalingGroupState) -> bool:
    """Whether all replicas are updated and available again."""
    return all(each.is_updated for each in group_state.group_replicas) and (
        group_state.is_availability_restored
        or all(each.is_available or not each.was_available for each in group_state.group_replicas)
    )


def _list_selected_replicas(group_state: ScalingGroupState) -> ReplicaSelection | None:
    selected = [
        each.index
        for each in group_state.group_replicas
        if each.was_available and not each.is_outdated and not each.is_available
    ]
    if not selected:
        return None
    done = (
        each.index for each in group_state.group_replicas if each.is_updated and each.is_available
    )
    return ReplicaSelection(selected[0], tuple(done))


def _compute_progress_deadline(
    observed: ObservedReplica,
    group_state: ScalingGroupState,
    progress: ScalingGroupUpdateProgress | None,
) -> datetime | None:
    """When the update exceeds progressDeadline; another ready pod is progress."""
    rolling_update = group_state.template.rolling_update
    if progress is None or rolling_update is None or not rolling_update.progress_deadline:
        return None
    steps = [
        condition.last_transition_time
        for group_replica in group_state.group_replicas
        for name, clique in group_replica.cliques.items()
        for pod in observed.get_classified_pods(name).members
        if is_current(clique, pod)
        for condition in pod.status.conditions
        if condition.type == "Ready"
        and condition.status == "True"
        and condition.last_transition_time
    ]
    last = max(map(parse_time, (progress.update_started_at, *steps)))
    return add_seconds(last, parse_duration(rolling_update.progress_deadline))


def _set_breach_condition(
    group_state: ScalingGroupState,
    conditions: tuple[Condition, ...],
    is_updating: bool,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    healthy, required = group_state.healthy_replicas, group_state.required_replicas
    message = f"healthy replicas: {healthy}, minAvailable: {required}"
    if is_updating:
        fields = ("Unknown", "UpdateInProgress", "replicas are being replaced")
    elif healthy < required:
        fields = ("True", "InsufficientAvailablePodCliqueScalingGroupReplicas", message)
    else:
        fields = ("False", "SufficientAvailablePodCliqueScalingGroupReplicas", message)
    breach = Condition(MIN_AVAILABLE_BREACHED, *fields, observed_generation=generation)
    return with_condition(conditions, breach, now)


def _set_termination_condition(
    group_state: ScalingGroupState,
    conditions: tuple[Condition, ...],
    terminating: bool,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """True from before the pods are deleted until enough replicas have recovered."""
    if terminating:
        active = Condition(
            GANG_TERMINATION_IN_PROGRESS,
            "True",
            "GangTerminationActive",
            "all pods of the replica are being restarted",
            observed_generation=generation,
        )
        return with_condition(conditions, active, now)
    if sum(map(_has_recovered, group_state.group_replicas)) >= group_state.required_replicas:
        return without_condition(conditions, GANG_TERMINATION_IN_PROGRESS)
    return conditions


def _has_recovered(replica: GroupReplica) -> bool:
    return not replica.is_breached and all(
        each.status.healthy_incarnation == get_incarnation(each.metadata)
        for each in replica.cliques.values()
    )


def _set_update_condition(
    conditions: tuple[Condition, ...],
    is_updating: bool,
    is_stuck: bool,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    if is_stuck:
        message = "no pod of the new template became ready within progressDeadline"
        fields = ("Unknown", "ProgressDeadlineExceeded", message)
    elif is_updating:
        fields = ("True", "UpdateInProgress", "replicas are being replaced")
    else:
        fields = ("False", "UpdateCompleted", "no replica is being replaced")
    update = Condition(UPDATE_IN_PROGRESS, *fields, observed_generation=generation)
    return with_condition(conditions, update, now)


def _keep_first_occurrence(old: PodCliqueScalingGroupStatus, error: LastError) -> LastError:
    """The error with the time when it was first seen."""
    for each in old.last_errors:
        if (each.code, each.description) == (error.code, error.description):
            return each
    return error


def _build_selector(set_name: str, group: str) -> str:
    """The pod selector for an autoscaler."""
    return (
        f"{names.MANAGED_BY}={names.OPERATOR},{names.PART_OF}={set_name},"
        f"{names.SCALING_GROUP}={group}"
    )
