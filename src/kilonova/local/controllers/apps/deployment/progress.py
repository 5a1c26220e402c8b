"""The status of a Deployment: counts, and conditions about the rollout. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from kilonova.api.times import format_rfc3339, parse_time
from kilonova.kube.status import find_condition, keep_transition_time, without_condition
from kilonova.local.controllers.apps.deployment.rolling_update import max_unavailable, sum_replicas
from kilonova.local.controllers.apps.objects import (
    Deployment,
    DeploymentCondition,
    DeploymentStatus,
    ReplicaSet,
)

Conditions = tuple[DeploymentCondition, ...]

_NO_DEADLINE = (1 << 31) - 1
PROGRESSING, AVAILABLE, REPLICA_FAILURE = "Progressing", "Available", "ReplicaFailure"
_AVAILABLE_REASON, _TIMED_OUT_REASON, _PAUSED_REASON = (
    "NewReplicaSetAvailable",
    "ProgressDeadlineExceeded",
    "DeploymentPaused",
)


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
    """A new state of a condition, at a time."""

    type: str
    status: str
    reason: str
    message: str
    now: datetime


def set_condition(conditions: Conditions, update: ConditionUpdate) -> Conditions:
    """The conditions with an update; ignored while status and reason are unchanged."""
    present = find_condition(conditions, update.type)
    if present and (present.status, present.reason) == (update.status, update.reason):
        return conditions
    return refresh_condition(conditions, update)


def refresh_condition(conditions: Conditions, update: ConditionUpdate) -> Conditions:
    """The conditions with an update, also if only the time changed."""
    now = format_rfc3339(update.now)
    new = DeploymentCondition(update.type, update.status, now, now, update.reason, update.message)
    present = find_condition(conditions, update.type)
    changed = keep_transition_time(new, present, update.now)
    return (*without_condition(conditions, update.type), changed)


def has_deadline(deployment: Deployment) -> bool:
    """Whether the Deployment has a progress deadline."""
    seconds = deployment.spec.progress_deadline_seconds
    return seconds is not None and seconds != _NO_DEADLINE


def update_paused_condition(deployment: Deployment, now: datetime) -> Conditions:
    """The conditions after pausing or resuming: paused time does not count as lack of progress."""
    conditions = deployment.status.conditions
    present = find_condition(conditions, PROGRESSING)
    reason = present.reason if present else ""
    if not has_deadline(deployment) or reason == _TIMED_OUT_REASON:
        return conditions
    if deployment.spec.paused and reason != _PAUSED_REASON:
        update = ConditionUpdate(
            PROGRESSING, "Unknown", _PAUSED_REASON, "Deployment is paused", now
        )
        return set_condition(conditions, update)
    if not deployment.spec.paused and reason == _PAUSED_REASON:
        message = "Deployment is resumed"
        return set_condition(
            conditions, ConditionUpdate(PROGRESSING, "Unknown", "DeploymentResumed", message, now)
        )
    return conditions


def report_found_replica_set(
    deployment: Deployment, conditions: Conditions, name: str, now: datetime
) -> Conditions:
    """The conditions when the newest ReplicaSet was found and none was reported yet."""
    if not has_deadline(deployment) or find_condition(conditions, PROGRESSING):
        return conditions
    message = f'Found new replica set "{name}"'
    return set_condition(
        conditions, ConditionUpdate(PROGRESSING, "True", "FoundNewReplicaSet", message, now)
    )


def report_created_replica_set(
    deployment: Deployment, conditions: Conditions, name: str, now: datetime
) -> Conditions:
    """The conditions when the newest ReplicaSet has just been created."""
    if not has_deadline(deployment):
        return conditions
    message = f'Created new replica set "{name}"'
    return set_condition(
        conditions, ConditionUpdate(PROGRESSING, "True", "NewReplicaSetCreated", message, now)
    )


def build_create_error_status(
    deployment: Deployment, message: str, now: datetime
) -> DeploymentStatus:
    """The status when the newest ReplicaSet could not be created."""
    status = deployment.status
    if not has_deadline(deployment):
        return status
    update = ConditionUpdate(PROGRESSING, "False", "ReplicaSetCreateError", message, now)
    return msgspec.structs.replace(status, conditions=set_condition(status.conditions, update))


def compute_status(
    deployment: Deployment,
    conditions: Conditions,
    sets: Sequence[ReplicaSet],
    new: ReplicaSet | None,
    now: datetime,
) -> DeploymentStatus:
    """The status computed from these ReplicaSets."""
    available = sum(each.status.available_replicas for each in sets)
    enough = available >= deployment.spec.replicas - max_unavailable(deployment)
    if enough:
        update = ConditionUpdate(
            AVAILABLE,
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
            now,
        )
    else:
        update = ConditionUpdate(
            AVAILABLE,
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
            now,
        )
    return DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(each.status.replicas for each in sets),
        updated_replicas=new.status.replicas if new is not None else 0,
        ready_replicas=sum(each.status.ready_replicas for each in sets),
        available_replicas=available,
        unavailable_replicas=max(sum_replicas(sets) - available, 0),
        terminating_replicas=_count_terminating(sets),
        conditions=set_condition(conditions, update),
        collision_count=deployment.status.collision_count,
    )


def _count_terminating(sets: Sequence[ReplicaSet]) -> int | None:
    """The terminating pods; None while a ReplicaSet that was observed does not report them."""
    sum_ = 0
    for each in sets:
        if each.status.terminating_replicas is None:
            if each.status.observed_generation:
                return None
        else:
            sum_ += each.status.terminating_replicas
    return sum_


def add_rollout_conditions(
    deployment: Deployment,
    status: DeploymentStatus,
    sets: Sequence[ReplicaSet],
    new: ReplicaSet | None,
    now: datetime,
) -> DeploymentStatus:
    """The status with the state of the rollout: complete, progressing, or timed out."""
    conditions = status.conditions
    if not has_deadline(deployment):
        conditions = without_condition(conditions, PROGRESSING)
    else:
        conditions = _update_progressing(deployment, status, new, now)
    failure = _find_replica_failure(sets, new)
    if failure is None:
        conditions = without_condition(conditions, REPLICA_FAILURE)
    elif (present := find_condition(conditions, REPLICA_FAILURE)) is None or (
        present.status,
        present.reason,
    ) != (failure.status, failure.reason):
        conditions = (*without_condition(conditions, REPLICA_FAILURE), failure)
    return msgspec.structs.replace(status, conditions=conditions)


def _update_progressing(
    deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, now: datetime
) -> Conditions:
    conditions = status.conditions
    present = find_condition(conditions, PROGRESSING)
    is_available = present is not None and present.reason == _AVAILABLE_REASON
    if is_available and status.replicas == status.updated_replicas:
        return conditions
    what = (
        f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{deployment.metadata.name}"'
    )
    if is_complete(deployment, status):
        message = f"{what} has successfully progressed."
        return set_condition(
            conditions, ConditionUpdate(PROGRESSING, "True", _AVAILABLE_REASON, message, now)
        )
    if _has_progressed(deployment.status, status):
        message = f"{what} is progressing."
        return refresh_condition(
            conditions, ConditionUpdate(PROGRESSING, "True", "ReplicaSetUpdated", message, now)
        )
    if present is not None and not is_available and _is_timed_out(deployment, present, now):
        message = f"{what} has timed out progressing."
        return set_condition(
            conditions, ConditionUpdate(PROGRESSING, "False", _TIMED_OUT_REASON, message, now)
        )
    return conditions


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all desired pods are updated and available, and no old ones are left."""
    desired = deployment.spec.replicas
    counts = (status.updated_replicas, status.replicas, status.available_replicas)
    observed = status.observed_generation >= deployment.metadata.generation
    return counts == (desired, desired, desired) and observed


def _has_progressed(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    return (
        new.updated_replicas > old.updated_replicas
        or new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        or new.ready_replicas > old.ready_replicas
        or new.available_replicas > old.available_replicas
    )


def _is_timed_out(deployment: Deployment, present: DeploymentCondition, now: datetime) -> bool:
    return present.reason == _TIMED_OUT_REASON or _deadline(deployment, present) < now


def _deadline(deployment: Deployment, present: DeploymentCondition) -> datetime:
    seconds = deployment.spec.progress_deadline_seconds or 0
    return parse_time(present.last_update_time) + timedelta(seconds=seconds)


def seconds_to_deadline(
    deployment: Deployment, status: DeploymentStatus, now: datetime
) -> float | None:
    """Seconds until the progress deadline of a rollout without progress."""
    present = find_condition(status.conditions, PROGRESSING)
    if (
        not has_deadline(deployment)
        or present is None
        or present.reason in (_TIMED_OUT_REASON, _AVAILABLE_REASON)
    ):
        return None
    if deployment.spec.paused or is_complete(deployment, status):
        return None
    # A second more: times in conditions are whole seconds.
    return max((_deadline(deployment, present) - now).total_seconds(), 0) + 1


def _find_replica_failure(
    sets: Sequence[ReplicaSet], new: ReplicaSet | None
) -> DeploymentCondition | None:
    """The ReplicaFailure condition of a ReplicaSet, preferably of the newest."""
    for each in (*([new] if new is not None else []), *sets):
        for found in each.status.conditions:
            if found.type == REPLICA_FAILURE:
                since = found.last_transition_time
                return DeploymentCondition(
                    found.type, found.status, since, since, found.reason, found.message
                )
    return None
