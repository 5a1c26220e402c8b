"""How far a deployment is, and its conditions. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.durations import parse_duration
from kilonova.api.inference_engine import (
    InferenceEngineDeployment,
    InferenceEngineDeploymentStatus,
    names,
)
from kilonova.api.meta import Condition
from kilonova.api.times import add_seconds, parse_time
from kilonova.instances.controllers.deployment.instance_state import InstanceState
from kilonova.instances.controllers.deployment.revisions import DeploymentRevision
from kilonova.instances.controllers.deployment.rollout import RolloutBounds
from kilonova.instances.controllers.deployment.template import DeploymentProblem
from kilonova.kube.status import find_condition

AVAILABLE, PROGRESSING, BLOCKED = "Available", "Progressing", "AllocationBlocked"
FAILURE = "ReplicaFailure"
"""Only while the API rejects what the controller writes."""
COMPLETE, ROLLING, PAUSED = "NewRevisionAvailable", "RevisionUpdated", "DeploymentPaused"
TIMED_OUT = "ProgressDeadlineExceeded"
WOULD_NOT_FIT = "UpdateWouldNotFit"
_DEFAULT_DEADLINE_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a deployment is."""

    deployment: InferenceEngineDeployment
    states: Sequence[InstanceState]
    """Its instances, without those that are being deleted."""
    bounds: RolloutBounds
    revision: DeploymentRevision | None
    """What instances are made from."""
    kept: str
    """Why outdated instances are kept, if the cluster has no capacity for updated ones."""
    problem: DeploymentProblem | None
    """Why changes wait."""

    @property
    def updated(self) -> list[InstanceState]:
        """Instances of the current revision."""
        return [each for each in self.states if each.is_updated]

    @property
    def outdated(self) -> int:
        """The number of other instances."""
        return len(self.states) - len(self.updated)

    @property
    def is_complete(self) -> bool:
        """Whether all instances are updated, and were available since. That one fails later is
        reported by another condition."""
        available = sum(1 for each in self.updated if each.is_available)
        if available == len(self.states) == self.bounds.replicas:
            return True
        before = find_condition(self.deployment.status.conditions, PROGRESSING)
        return (
            before is not None
            and before.reason == COMPLETE
            and self.revision is not None
            and self.deployment.status.current_revision == self.revision.number
            and not self.outdated
        )


def build_conditions(progress: Progress, now: datetime) -> tuple[Condition, ...]:
    """The conditions of a deployment."""
    return (
        _build_available(progress),
        _build_progressing(progress, now),
        _build_blocked(progress),
    )


def get_deadline_delay(
    progress: Progress, conditions: Sequence[Condition], now: datetime
) -> float | None:
    """Seconds until the deadline of an update that goes on."""
    condition = find_condition(conditions, PROGRESSING)
    if condition is None or condition.reason != ROLLING:
        return None
    # A second more: times in objects are whole seconds.
    return max(0.0, (_find_deadline(progress, now) - now).total_seconds()) + 1


def list_condition_events(
    old: InferenceEngineDeploymentStatus, new: InferenceEngineDeploymentStatus
) -> Iterator[tuple[str, str, bool]]:
    """Reason, message and whether it is a warning, of events about conditions that changed."""
    for type_, status in ((BLOCKED, "True"), (PROGRESSING, "False")):
        before, after = (find_condition(each.conditions, type_) for each in (old, new))
        if after is None or after.status != status:
            continue
        if before is None or (before.status, before.reason) != (status, after.reason):
            yield after.reason, after.message, True
    before, after = (find_condition(each.conditions, PROGRESSING) for each in (old, new))
    was_complete = before is not None and before.reason == COMPLETE
    if after is not None and after.reason == COMPLETE and not was_complete:
        yield "RolloutComplete", after.message, False


def _build_available(progress: Progress) -> Condition:
    bounds = progress.bounds
    available = sum(1 for each in progress.states if each.is_available)
    least = max(bounds.min_available, min(1, bounds.replicas))
    message = f"{available} of {bounds.replicas} instances available"
    if available >= least:
        return Condition(AVAILABLE, "True", "MinimumReplicasAvailable", message)
    needed = f"{message}, at least {least} needed"
    return Condition(AVAILABLE, "False", "MinimumReplicasUnavailable", needed)


def _build_progressing(progress: Progress, now: datetime) -> Condition:
    problem, revision, replicas = progress.problem, progress.revision, progress.bounds.replicas
    if problem is not None:
        return Condition(PROGRESSING, "False", problem.reason, problem.message)
    if progress.deployment.spec.paused or revision is None:
        message = "changes of release and template wait: set spec.paused to false to go on"
        return Condition(PROGRESSING, "Unknown", PAUSED, message)
    if progress.is_complete:
        counts = f"{replicas} instance{'' if replicas == 1 else 's'}"
        return Condition(PROGRESSING, "True", COMPLETE, f"{counts} of {revision.title}")
    updated = progress.updated
    available = sum(1 for each in updated if each.is_available)
    message = (
        f"{len(updated)} of {replicas} instances updated to {revision.title}, "
        f"{available} available; {progress.outdated} outdated"
    )
    if _find_deadline(progress, now) <= now:
        deadline = progress.deployment.spec.strategy.progress_deadline
        return Condition(PROGRESSING, "False", TIMED_OUT, f"{message}; no progress for {deadline}")
    return Condition(PROGRESSING, "True", ROLLING, message)


def _build_blocked(progress: Progress) -> Condition:
    kept = f", {progress.outdated} outdated kept" if progress.outdated else ""
    if progress.kept:
        message = f"an updated instance would not fit{kept}: {progress.kept}"
        return Condition(BLOCKED, "True", WOULD_NOT_FIT, message)
    placeless = [each for each in progress.states if each.is_unallocatable]
    if not placeless:
        return Condition(BLOCKED, "False", "InstancesAllocated", "no instance lacks capacity")
    first = min(placeless, key=lambda each: each.name)
    allocated = find_condition(first.instance.status.conditions, "Allocated")
    why = f": {allocated.message}" if allocated is not None and allocated.message else ""
    count = f"{len(placeless)} of {progress.bounds.replicas} instances cannot be placed"
    message = f"{count}{kept}; {first.name}{why}"
    return Condition(BLOCKED, "True", names.ALLOCATION_FAILED, message)


def _find_deadline(progress: Progress, now: datetime) -> datetime:
    try:
        seconds = parse_duration(progress.deployment.spec.strategy.progress_deadline)
    except ValueError:
        seconds = _DEFAULT_DEADLINE_SECONDS
    return add_seconds(max(_list_progress_times(progress, now)), seconds)


def _list_progress_times(progress: Progress, now: datetime) -> Iterator[datetime]:
    """When there was progress, read from objects: the rollout started or was resumed, an updated
    instance was created, or has become ready."""
    status, revision = progress.deployment.status, progress.revision
    number = None if revision is None else revision.number
    started = [each.since for each in status.history if each.revision == number and each.since]
    yield parse_time(started[0]) if started else now
    before = find_condition(status.conditions, PROGRESSING)
    if before is not None and before.reason != TIMED_OUT:
        since = before.last_transition_time if before.status == "True" else None
        yield parse_time(since) if since else now
    for each in progress.updated:
        if each.instance.metadata.creation_timestamp:
            yield parse_time(each.instance.metadata.creation_timestamp)
        if each.ready_since is not None:
            yield each.ready_since
