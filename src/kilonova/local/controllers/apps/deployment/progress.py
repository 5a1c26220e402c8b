"""The status of a Deployment: counts, and the conditions that tell how a rollout goes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from kilonova.api.times import parse_time, rfc3339
from kilonova.local.controllers.apps.deployment.rolling import max_unavailable, total
from kilonova.local.controllers.apps.objects import (
    Deployment,
    DeploymentCondition,
    DeploymentStatus,
    ReplicaSet,
)

Conditions = tuple[DeploymentCondition, ...]

_NO_DEADLINE = (1 << 31) - 1
PROGRESSING, AVAILABLE, REPLICA_FAILURE = "Progressing", "Available", "ReplicaFailure"
_DONE, _TIMED_OUT, _PAUSED = (
    "NewReplicaSetAvailable",
    "ProgressDeadlineExceeded",
    "DeploymentPaused",
)


def condition(conditions: Conditions, type_: str) -> DeploymentCondition | None:
    return next((each for each in conditions if each.type == type_), None)


@dataclass(frozen=True, slots=True)
class News:
    """A new state of a condition, at a time."""

    type: str
    status: str
    reason: str
    message: str
    now: datetime


def told(conditions: Conditions, news: News) -> Conditions:
    """The conditions with news; a condition stays as it is while status and reason do."""
    present = condition(conditions, news.type)
    if present and (present.status, present.reason) == (news.status, news.reason):
        return conditions
    return retold(conditions, news)


def retold(conditions: Conditions, news: News) -> Conditions:
    """The conditions with news, also where only the time is new."""
    present = condition(conditions, news.type)
    now = rfc3339(news.now)
    same = present is not None and present.status == news.status
    since = present.last_transition_time if present is not None and same else now
    new = DeploymentCondition(news.type, news.status, now, since, news.reason, news.message)
    return (*without(conditions, news.type), new)


def without(conditions: Conditions, type_: str) -> Conditions:
    return tuple(each for each in conditions if each.type != type_)


def has_deadline(deployment: Deployment) -> bool:
    """Whether lack of progress is to be told."""
    seconds = deployment.spec.progress_deadline_seconds
    return seconds is not None and seconds != _NO_DEADLINE


def paused_or_resumed(deployment: Deployment, now: datetime) -> Conditions:
    """The conditions after pausing or resuming: time that was paused is no lack of progress."""
    conditions = deployment.status.conditions
    present = condition(conditions, PROGRESSING)
    reason = present.reason if present else ""
    if not has_deadline(deployment) or reason == _TIMED_OUT:
        return conditions
    if deployment.spec.paused and reason != _PAUSED:
        news = News(PROGRESSING, "Unknown", _PAUSED, "Deployment is paused", now)
        return told(conditions, news)
    if not deployment.spec.paused and reason == _PAUSED:
        message = "Deployment is resumed"
        return told(conditions, News(PROGRESSING, "Unknown", "DeploymentResumed", message, now))
    return conditions


def found_new(
    deployment: Deployment, conditions: Conditions, name: str, now: datetime
) -> Conditions:
    """The conditions when the newest set is there and nothing was told of it yet."""
    if not has_deadline(deployment) or condition(conditions, PROGRESSING):
        return conditions
    message = f'Found new replica set "{name}"'
    return told(conditions, News(PROGRESSING, "True", "FoundNewReplicaSet", message, now))


def created_new(
    deployment: Deployment, conditions: Conditions, name: str, now: datetime
) -> Conditions:
    """The conditions when the newest set has just been made."""
    if not has_deadline(deployment):
        return conditions
    message = f'Created new replica set "{name}"'
    return told(conditions, News(PROGRESSING, "True", "NewReplicaSetCreated", message, now))


def not_created(deployment: Deployment, message: str, now: datetime) -> DeploymentStatus:
    """The status when the newest set was refused."""
    status = deployment.status
    if not has_deadline(deployment):
        return status
    news = News(PROGRESSING, "False", "ReplicaSetCreateError", message, now)
    return msgspec.structs.replace(status, conditions=told(status.conditions, news))


def counted(
    deployment: Deployment,
    conditions: Conditions,
    sets: Sequence[ReplicaSet],
    new: ReplicaSet | None,
    now: datetime,
) -> DeploymentStatus:
    """The status that these sets make."""
    available = sum(each.status.available_replicas for each in sets)
    enough = available >= deployment.spec.replicas - max_unavailable(deployment)
    if enough:
        news = News(
            AVAILABLE,
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
            now,
        )
    else:
        news = News(
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
        unavailable_replicas=max(total(sets) - available, 0),
        terminating_replicas=_going(sets),
        conditions=told(conditions, news),
        collision_count=deployment.status.collision_count,
    )


def _going(sets: Sequence[ReplicaSet]) -> int | None:
    """Pods being deleted; None while a set that has been looked at does not say."""
    sum_ = 0
    for each in sets:
        if each.status.terminating_replicas is None:
            if each.status.observed_generation:
                return None
        else:
            sum_ += each.status.terminating_replicas
    return sum_


def rolled(
    deployment: Deployment,
    status: DeploymentStatus,
    sets: Sequence[ReplicaSet],
    new: ReplicaSet | None,
    now: datetime,
) -> DeploymentStatus:
    """The status with what can be said of the rollout: done, moving, or stuck for too long."""
    conditions = status.conditions
    if not has_deadline(deployment):
        conditions = without(conditions, PROGRESSING)
    else:
        conditions = _progress(deployment, status, new, now)
    failure = _failure(sets, new)
    if failure is None:
        conditions = without(conditions, REPLICA_FAILURE)
    elif (present := condition(conditions, REPLICA_FAILURE)) is None or (
        present.status,
        present.reason,
    ) != (failure.status, failure.reason):
        conditions = (*without(conditions, REPLICA_FAILURE), failure)
    return msgspec.structs.replace(status, conditions=conditions)


def _progress(
    deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, now: datetime
) -> Conditions:
    conditions = status.conditions
    present = condition(conditions, PROGRESSING)
    settled = present is not None and present.reason == _DONE
    if settled and status.replicas == status.updated_replicas:
        return conditions
    what = (
        f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{deployment.metadata.name}"'
    )
    if is_complete(deployment, status):
        message = f"{what} has successfully progressed."
        return told(conditions, News(PROGRESSING, "True", _DONE, message, now))
    if _has_moved(deployment.status, status):
        message = f"{what} is progressing."
        return retold(conditions, News(PROGRESSING, "True", "ReplicaSetUpdated", message, now))
    if present is not None and not settled and _is_late(deployment, present, now):
        message = f"{what} has timed out progressing."
        return told(conditions, News(PROGRESSING, "False", _TIMED_OUT, message, now))
    return conditions


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all wanted pods are new and available, and no old ones are left."""
    wanted = deployment.spec.replicas
    counts = (status.updated_replicas, status.replicas, status.available_replicas)
    observed = status.observed_generation >= deployment.metadata.generation
    return counts == (wanted, wanted, wanted) and observed


def _has_moved(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    return (
        new.updated_replicas > old.updated_replicas
        or new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        or new.ready_replicas > old.ready_replicas
        or new.available_replicas > old.available_replicas
    )


def _is_late(deployment: Deployment, present: DeploymentCondition, now: datetime) -> bool:
    return present.reason == _TIMED_OUT or _deadline(deployment, present) < now


def _deadline(deployment: Deployment, present: DeploymentCondition) -> datetime:
    seconds = deployment.spec.progress_deadline_seconds or 0
    return parse_time(present.last_update_time) + timedelta(seconds=seconds)


def look_again_after(
    deployment: Deployment, status: DeploymentStatus, now: datetime
) -> float | None:
    """Seconds until lack of progress can be told of a rollout that stands still."""
    present = condition(status.conditions, PROGRESSING)
    if not has_deadline(deployment) or present is None or present.reason in (_TIMED_OUT, _DONE):
        return None
    if deployment.spec.paused or is_complete(deployment, status):
        return None
    # A second more: times in conditions are whole seconds.
    return max((_deadline(deployment, present) - now).total_seconds(), 0) + 1


def _failure(sets: Sequence[ReplicaSet], new: ReplicaSet | None) -> DeploymentCondition | None:
    """The failure of a set, of the newest if it has one."""
    for each in (*([new] if new is not None else []), *sets):
        for found in each.status.conditions:
            if found.type == REPLICA_FAILURE:
                since = found.last_transition_time
                return DeploymentCondition(
                    found.type, found.status, since, since, found.reason, found.message
                )
    return None
