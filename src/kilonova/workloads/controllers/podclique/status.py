"""The status of a clique. Pure."""

from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.grove import PodClique, names
from kilonova.api.grove.common import LastError
from kilonova.api.grove.podclique import PodCliqueStatus, PodCliqueUpdateProgress
from kilonova.api.meta import Condition
from kilonova.api.times import format_rfc3339
from kilonova.kube.status import is_condition_true, with_condition, without_condition
from kilonova.workloads.controllers.podclique.completion import COMPLETE_CONDITION, FAILED_CONDITION
from kilonova.workloads.controllers.podclique.updates import is_update_open
from kilonova.workloads.keys import get_incarnation
from kilonova.workloads.pods.classification import (
    ClassifiedPods,
    count_required_pods,
    has_succeeded,
    is_current,
    is_ready_or_succeeded,
)
from kilonova.workloads.pods.state import (
    describe_problem,
    has_failed_container,
    has_started_containers,
    is_gated,
    is_ready,
    is_scheduled,
)
from kilonova.workloads.resources import Pod
from kilonova.workloads.status.condition_types import MIN_AVAILABLE_BREACHED, UPDATE_IN_PROGRESS

CLIQUE_SCHEDULED_CONDITION = "PodCliqueScheduled"

SYNC_PODS_ERROR = "ERR_SYNC_PODS"


@dataclass(frozen=True, slots=True)
class CliqueProgress:
    """Progress of a clique's update and completion."""

    update: PodCliqueUpdateProgress | None = None
    deadline: datetime | None = None
    """When the update exceeds progressDeadline."""
    complete: bool = False
    failed: bool = False


def build_status(
    clique: PodClique, pods: ClassifiedPods, progress: CliqueProgress, now: datetime
) -> PodCliqueStatus:
    """The status of a clique with these pods, after a successful reconcile."""
    members, old = pods.members, clique.status
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
        hpa_pod_selector=_build_selector(clique),
        update_progress=progress.update,
    )
    if _has_single_template(clique, pods):
        labels = clique.metadata.labels
        status = replace(
            status,
            current_pod_clique_set_generation_hash=labels.get(names.GENERATION_HASH, ""),
            current_pod_template_hash=labels.get(names.POD_TEMPLATE_HASH, ""),
        )
    return _with_conditions(clique, pods, progress, status, now)


def build_error_status(
    clique: PodClique,
    status: PodCliqueStatus,
    problem: str,
    now: datetime,
    *,
    code: str = SYNC_PODS_ERROR,
) -> PodCliqueStatus:
    """The status after a reconcile that failed in part."""
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
        # Before the first successful reconcile, conditions would carry no information.
        conditions=() if observed is None else status.conditions,
        last_errors=(known or LastError(code, problem, format_rfc3339(now)),),
    )


def is_urgent(clique: PodClique, new: PodCliqueStatus, *, others_wait: bool) -> bool:
    """Whether a status must be written at once; progress towards readiness is not urgent.

    `others_wait`: scaled gangs wait for the clique's gang to be scheduled.
    """
    old, required = clique.status, count_required_pods(clique)
    before, after = _count_ready_or_succeeded(old), _count_ready_or_succeeded(new)
    had, has = old.scheduled_replicas, new.scheduled_replicas
    return (
        after >= clique.spec.replicas
        or after < before
        or has < had
        or (before < required <= after)
        or (others_wait and had < required <= has)
        or old.observed_generation not in (None, new.observed_generation)
        or (old.last_errors, old.update_progress) != (new.last_errors, new.update_progress)
        or any(
            is_condition_true(new.conditions, each) and not is_condition_true(old.conditions, each)
            for each in (COMPLETE_CONDITION, FAILED_CONDITION)
        )
        or (
            # For a new clique it is expected that pods are missing.
            old.observed_generation is not None
            and (is_condition_true(new.conditions, MIN_AVAILABLE_BREACHED), new.healthy_incarnation)
            != (is_condition_true(old.conditions, MIN_AVAILABLE_BREACHED), old.healthy_incarnation)
        )
    )


def has_lost_all(clique: PodClique, new: PodCliqueStatus) -> bool:
    """Whether pods had nodes and none has one now, without a change of the spec."""
    return (
        clique.status.scheduled_replicas > 0
        and new.scheduled_replicas == 0
        and is_condition_true(new.conditions, MIN_AVAILABLE_BREACHED)
        and new.healthy_incarnation in (None, get_incarnation(clique.metadata))
    )


def _count_ready_or_succeeded(status: PodCliqueStatus) -> int:
    return status.ready_replicas + status.succeeded_replicas


def _has_single_template(clique: PodClique, pods: ClassifiedPods) -> bool:
    if not clique.status.current_pod_template_hash:
        return True
    enough = len(pods.members) >= clique.spec.replicas
    return enough and not pods.outdated


def _build_selector(clique: PodClique) -> str:
    """The pod selector for an autoscaler; cliques of scaling groups are not scaled alone."""
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
    clique: PodClique,
    pods: ClassifiedPods,
    progress: CliqueProgress,
    status: PodCliqueStatus,
    now: datetime,
) -> PodCliqueStatus:
    generation = clique.metadata.generation
    conditions_to_set = [
        _breach_condition(clique, pods, progress),
        _scheduled_condition(clique, status, progress),
        _update_condition(progress, now),
        (COMPLETE_CONDITION, "True", "AllPodsSucceeded", "all pods have succeeded")
        if progress.complete
        else (COMPLETE_CONDITION, "", "", ""),
        (FAILED_CONDITION, "True", "BackoffLimitExceeded", f"failed pods: {len(pods.failed)}")
        if progress.failed
        else (FAILED_CONDITION, "", "", ""),
    ]
    conditions: tuple[Condition, ...] = status.conditions
    for type_, value, reason, message in conditions_to_set:
        if value:
            new = Condition(type_, value, reason, message, observed_generation=generation)
            conditions = with_condition(conditions, new, now)
        else:
            conditions = without_condition(conditions, type_)
    healthy = status.healthy_incarnation
    if conditions_to_set[0][1] == "False" and clique.spec.replicas > 0:
        healthy = get_incarnation(clique.metadata)
    return replace(status, conditions=conditions, healthy_incarnation=healthy)


_ConditionFields = tuple[str, str, str, str]
"""A condition's type, status, reason and message; an empty status removes it."""


def _breach_condition(
    clique: PodClique, pods: ClassifiedPods, progress: CliqueProgress
) -> _ConditionFields:
    """MinAvailableBreached. Pods that have not started yet are no breach: they may be about to."""
    required = count_required_pods(clique)
    scheduled = [pod for pod in pods.members if is_scheduled(pod)]
    failing = sum(map(_is_broken, scheduled))
    if progress.complete:
        return (
            MIN_AVAILABLE_BREACHED,
            "False",
            "SufficientReadyPods",
            "all pods have succeeded",
        )
    if is_update_open(progress.update):
        return MIN_AVAILABLE_BREACHED, "Unknown", "UpdateInProgress", "pods are being replaced"
    problem = describe_problem((*pods.members, *pods.to_delete))
    cause = f"; {problem}" if problem else ""
    if len(scheduled) < required:
        message = f"pods scheduled: {len(scheduled)}, minAvailable: {required}{cause}"
        return MIN_AVAILABLE_BREACHED, "True", "ScheduledReplicasBelowMinAvailable", message
    working = len(scheduled) - failing
    message = f"pods ready or starting: {working}, minAvailable: {required}"
    if working < required:
        return MIN_AVAILABLE_BREACHED, "True", "InsufficientReadyPods", message + cause
    return MIN_AVAILABLE_BREACHED, "False", "SufficientReadyPods", message


def _is_broken(pod: Pod) -> bool:
    return not is_ready_or_succeeded(pod) and (
        has_failed_container(pod) or has_started_containers(pod)
    )


def _scheduled_condition(
    clique: PodClique, status: PodCliqueStatus, progress: CliqueProgress
) -> _ConditionFields:
    required = count_required_pods(clique)
    message = f"pods scheduled: {status.scheduled_replicas}, minAvailable: {required}"
    if progress.complete or status.scheduled_replicas >= required:
        return CLIQUE_SCHEDULED_CONDITION, "True", "SufficientScheduledPods", message
    return CLIQUE_SCHEDULED_CONDITION, "False", "InsufficientScheduledPods", message


def _update_condition(progress: CliqueProgress, now: datetime) -> _ConditionFields:
    if progress.update is None:
        return UPDATE_IN_PROGRESS, "", "", ""
    if not is_update_open(progress.update):
        return UPDATE_IN_PROGRESS, "False", "UpdateCompleted", "no pod is being replaced"
    if progress.deadline is not None and progress.deadline <= now:
        message = "no pod of the new template became ready within progressDeadline"
        return UPDATE_IN_PROGRESS, "Unknown", "ProgressDeadlineExceeded", message
    return UPDATE_IN_PROGRESS, "True", "UpdateInProgress", "pods are being replaced"
