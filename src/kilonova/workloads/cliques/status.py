"""What the status of a clique says. Pure."""

from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.grove import PodClique, names
from kilonova.api.grove.parts import LastError
from kilonova.api.grove.podclique import PodCliqueStatus, PodCliqueUpdateProgress
from kilonova.api.meta import Condition
from kilonova.api.times import rfc3339
from kilonova.workloads.cliques.completion import COMPLETE, FAILED
from kilonova.workloads.cliques.roster import (
    Roster,
    has_succeeded,
    is_current,
    is_up,
    needed,
)
from kilonova.workloads.cliques.updates import is_open
from kilonova.workloads.conditions import (
    BREACHED,
    UPDATING,
    holds,
    with_condition,
    without_condition,
)
from kilonova.workloads.keys import incarnation_of
from kilonova.workloads.pods import (
    has_failed_lately,
    has_started,
    is_gated,
    is_ready,
    is_scheduled,
    problem_of,
)
from kilonova.workloads.resources import Pod

SCHEDULED = "PodCliqueScheduled"

SYNC_PODS = "ERR_SYNC_PODS"


@dataclass(frozen=True, slots=True)
class Course:
    """How far a clique is in what takes it time."""

    update: PodCliqueUpdateProgress | None = None
    deadline: datetime | None = None
    """When the update counts as stuck."""
    complete: bool = False
    failed: bool = False


def status_of(clique: PodClique, roster: Roster, course: Course, now: datetime) -> PodCliqueStatus:
    """The status that these pods make, once all has been done that the clique's spec asks for."""
    members, old = roster.members, clique.status
    status = replace(
        old,
        replicas=len(members),
        ready_replicas=sum(map(is_ready, members)),
        updated_replicas=sum(is_current(clique, pod) for pod in members),
        schedule_gated_replicas=sum(map(is_gated, members)),
        scheduled_replicas=sum(map(is_scheduled, members)),
        succeeded_replicas=sum(map(has_succeeded, members)),
        observed_generation=clique.metadata.generation,
        last_errors=(),
        hpa_pod_selector=_selector(clique),
        update_progress=course.update,
    )
    if _is_at_one_template(clique, roster):
        labels = clique.metadata.labels
        status = replace(
            status,
            current_pod_clique_set_generation_hash=labels.get(names.GENERATION_HASH, ""),
            current_pod_template_hash=labels.get(names.POD_TEMPLATE_HASH, ""),
        )
    return _with_conditions(clique, roster, course, status, now)


def failed_status(
    clique: PodClique,
    status: PodCliqueStatus,
    problem: str,
    now: datetime,
    *,
    code: str = SYNC_PODS,
) -> PodCliqueStatus:
    """A status after a round in which not all could be done."""
    known = next(
        (
            each
            for each in clique.status.last_errors
            if (each.code, each.description) == (code, problem)
        ),
        None,
    )
    observed = clique.status.observed_generation
    return replace(
        status,
        observed_generation=observed,
        # Before the spec has been acted on once, conditions would tell of nothing but that.
        conditions=() if observed is None else status.conditions,
        last_errors=(known or LastError(code, problem, rfc3339(now)),),
    )


def is_pressing(clique: PodClique, new: PodCliqueStatus, *, others_wait: bool) -> bool:
    """Whether a status is to be told at once, and not only that pods are on their way.

    Others may wait for the clique's gang to have its nodes.
    """
    old, least = clique.status, needed(clique)
    before, after = _up(old), _up(new)
    had, has = old.scheduled_replicas, new.scheduled_replicas
    return (
        after >= clique.spec.replicas
        or after < before
        or has < had
        or (before < least <= after)
        or (others_wait and had < least <= has)
        or old.observed_generation not in (None, new.observed_generation)
        or (old.last_errors, old.update_progress) != (new.last_errors, new.update_progress)
        or any(
            holds(new.conditions, each) and not holds(old.conditions, each)
            for each in (COMPLETE, FAILED)
        )
        or (
            # Of one that has just been made it is no news that it lacks pods, or gets them.
            old.observed_generation is not None
            and (holds(new.conditions, BREACHED), new.healthy_incarnation)
            != (holds(old.conditions, BREACHED), old.healthy_incarnation)
        )
    )


def has_lost_all(clique: PodClique, new: PodCliqueStatus) -> bool:
    """Whether pods had nodes, none has one now, and nobody asked for that."""
    return (
        clique.status.scheduled_replicas > 0
        and new.scheduled_replicas == 0
        and holds(new.conditions, BREACHED)
        and new.healthy_incarnation in (None, incarnation_of(clique.metadata))
    )


def _up(status: PodCliqueStatus) -> int:
    return status.ready_replicas + status.succeeded_replicas


def _is_at_one_template(clique: PodClique, roster: Roster) -> bool:
    if not clique.status.current_pod_template_hash:
        return True
    enough = len(roster.members) >= clique.spec.replicas
    return enough and not roster.outdated


def _selector(clique: PodClique) -> str:
    """By which an autoscaler finds the pods; members of a scaling group are not scaled alone."""
    labels = clique.metadata.labels
    if names.SCALING_GROUP in labels:
        return ""
    wanted = {
        names.MANAGED_BY: names.OPERATOR,
        names.PART_OF: labels.get(names.PART_OF, ""),
        names.POD_CLIQUE: clique.metadata.name,
    }
    return ",".join(f"{name}={value}" for name, value in wanted.items() if value)


def _with_conditions(
    clique: PodClique, roster: Roster, course: Course, status: PodCliqueStatus, now: datetime
) -> PodCliqueStatus:
    generation = clique.metadata.generation
    verdicts = [
        _breach(clique, roster, course),
        _scheduling(clique, status, course),
        _updating(course, now),
        (COMPLETE, "True", "AllPodsSucceeded", "all pods have done their work")
        if course.complete
        else (COMPLETE, "", "", ""),
        (FAILED, "True", "BackoffLimitExceeded", f"pods that failed: {len(roster.failed)}")
        if course.failed
        else (FAILED, "", "", ""),
    ]
    conditions: tuple[Condition, ...] = status.conditions
    for type_, value, reason, message in verdicts:
        if value:
            conditions = with_condition(conditions, type_, value, reason, message, now, generation)
        else:
            conditions = without_condition(conditions, type_)
    healthy = status.healthy_incarnation
    if verdicts[0][1] == "False" and clique.spec.replicas > 0:
        healthy = incarnation_of(clique.metadata)
    return replace(status, conditions=conditions, healthy_incarnation=healthy)


_Verdict = tuple[str, str, str, str]
"""A condition's type, status, reason and message; no status where it should not be there."""


def _breach(clique: PodClique, roster: Roster, course: Course) -> _Verdict:
    """Pods that have not started yet are no breach: they may well be about to."""
    least = needed(clique)
    scheduled = [pod for pod in roster.members if is_scheduled(pod)]
    broken = sum(map(_is_broken, scheduled))
    if course.complete:
        return BREACHED, "False", "SufficientReadyPods", "all pods have done their work"
    if is_open(course.update):
        return BREACHED, "Unknown", "UpdateInProgress", "pods are being replaced"
    problem = problem_of((*roster.members, *roster.dismissed))
    cause = f"; {problem}" if problem else ""
    if len(scheduled) < least:
        message = f"pods scheduled: {len(scheduled)}, at least {least} needed{cause}"
        return BREACHED, "True", "ScheduledReplicasBelowMinAvailable", message
    left = len(scheduled) - broken
    message = f"pods ready or starting: {left}, at least {least} needed"
    if left < least:
        return BREACHED, "True", "InsufficientReadyPods", message + cause
    return BREACHED, "False", "SufficientReadyPods", message


def _is_broken(pod: Pod) -> bool:
    return not is_up(pod) and (has_failed_lately(pod) or has_started(pod))


def _scheduling(clique: PodClique, status: PodCliqueStatus, course: Course) -> _Verdict:
    least = needed(clique)
    message = f"pods scheduled: {status.scheduled_replicas}, at least {least} needed"
    if course.complete or status.scheduled_replicas >= least:
        return SCHEDULED, "True", "SufficientScheduledPods", message
    return SCHEDULED, "False", "InsufficientScheduledPods", message


def _updating(course: Course, now: datetime) -> _Verdict:
    if course.update is None:
        return UPDATING, "", "", ""
    if not is_open(course.update):
        return UPDATING, "False", "UpdateCompleted", "no pod is being replaced"
    if course.deadline is not None and course.deadline <= now:
        message = "no pod of the new template has got ready for too long"
        return UPDATING, "Unknown", "ProgressDeadlineExceeded", message
    return UPDATING, "True", "UpdateInProgress", "pods are being replaced"
