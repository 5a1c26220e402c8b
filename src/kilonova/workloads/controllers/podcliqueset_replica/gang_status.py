"""The status of a gang. Pure.

It does not change with every pod, so that a big gang causes few writes: the numbers of pods are in
the statuses of its cliques.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.grove import PodClique, names
from kilonova.api.meta import Condition
from kilonova.api.podgang import Phase, PodGang, PodGangStatus, PodGroup
from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME
from kilonova.api.times import format_rfc3339
from kilonova.kube.status import find_condition, is_condition_true, with_condition
from kilonova.workloads.controllers.podclique.completion import COMPLETE_CONDITION, FAILED_CONDITION
from kilonova.workloads.controllers.podcliqueset_replica.observed import ObservedReplica
from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.state import (
    is_clique_breached,
)
from kilonova.workloads.keys import get_incarnation
from kilonova.workloads.pods.classification import is_ready_or_succeeded
from kilonova.workloads.pods.state import describe_problem, is_scheduled
from kilonova.workloads.resources import Pod

INITIALIZED = "Initialized"
SCHEDULED = "Scheduled"
READY = "Ready"
UNHEALTHY = "Unhealthy"

_STARTING_PHASES: tuple[Phase, ...] = ("Pending", "Starting")
_LOSS_MESSAGE = "a pod group has fewer running pods than minReplicas"


@dataclass(frozen=True, slots=True)
class _PodGroupState:
    """A pod group of a gang with its members."""

    spec: PodGroup
    clique: PodClique | None
    members: Sequence[Pod]

    @property
    def is_created(self) -> bool:
        present = {pod.metadata.name for pod in self.members}
        return all(each.name in present for each in self.spec.pod_references)

    @property
    def is_scheduled(self) -> bool:
        return sum(map(is_scheduled, self.members)) >= self.spec.min_replicas

    @property
    def is_ready(self) -> bool:
        return sum(map(is_ready_or_succeeded, self.members)) >= self.spec.min_replicas

    @property
    def is_unhealthy(self) -> bool:
        """Whether it lost required pods; one that has never been available is only pending."""
        clique = self.clique
        return (
            clique is not None
            and is_clique_breached(clique)
            and clique.status.healthy_incarnation == get_incarnation(clique.metadata)
        )

    def is_condition_true(self, condition: str) -> bool:
        return self.clique is not None and is_condition_true(
            self.clique.status.conditions, condition
        )


def build_gang_status(observed: ObservedReplica, gang: PodGang, now: datetime) -> PodGangStatus:
    """The status of a gang; fields that others write are kept."""
    groups = [
        _PodGroupState(
            each, observed.cliques.get(each.name), observed.get_classified_pods(each.name).members
        )
        for each in gang.spec.pod_groups
    ]
    old = gang.status
    conditions = old.conditions
    created = all(each.is_created for each in groups)
    scheduled = all(each.is_scheduled for each in groups)
    ready = scheduled and all(each.is_ready for each in groups)
    unhealthy = any(each.is_unhealthy for each in groups)

    def add_condition(type_: str, value: bool, reasons: tuple[str, str], message: str) -> None:
        nonlocal conditions
        status, reason = ("True", reasons[0]) if value else ("False", reasons[1])
        conditions = with_condition(conditions, Condition(type_, status, reason, message), now)

    reasons = ("PodGangPodsCreated", "PodGangPodsCreationPending")
    add_condition(INITIALIZED, created, reasons, _format_fact(created, "all pods are created"))
    reasons = ("SufficientScheduledPods", "InsufficientScheduledPods")
    add_condition(
        SCHEDULED,
        scheduled,
        reasons,
        _format_fact(scheduled, "every pod group has minReplicas scheduled pods"),
    )
    reasons = ("SufficientReadyPods", "InsufficientReadyPods")
    add_condition(
        READY, ready, reasons, _format_fact(ready, "every pod group has minReplicas ready pods")
    )
    reasons = ("MinAvailableBreached", "MinAvailableMet")
    message = _describe_loss(gang, groups) if unhealthy else "every pod group has the pods it needs"
    add_condition(UNHEALTHY, unhealthy, reasons, message)
    return replace(
        old,
        phase=_compute_phase(groups, scheduled, ready),
        conditions=conditions,
        last_scheduled=_last_transition(
            old.conditions, SCHEDULED, scheduled, old.last_scheduled, now
        ),
        last_ready=_last_transition(old.conditions, READY, ready, old.last_ready, now),
    )


def is_urgent(gang: PodGang, new: PodGangStatus) -> bool:
    """Whether a status must be written at once; progress towards readiness is not urgent.

    A gang-aware scheduler may wait for Initialized.
    """

    def has_changed(type_: str) -> bool:
        return is_condition_true(new.conditions, type_) != is_condition_true(
            gang.status.conditions, type_
        )

    scheduler = gang.metadata.labels.get(names.SCHEDULER_NAME)
    is_progress = gang.status.phase in _STARTING_PHASES and new.phase in _STARTING_PHASES
    return (
        (new.phase != gang.status.phase and not is_progress)
        or has_changed(UNHEALTHY)
        or (scheduler != DEFAULT_SCHEDULER_NAME and has_changed(INITIALIZED))
    )


def is_deferrable(gang: PodGang) -> bool:
    """Whether the first status may be deferred: no scheduler waits for it."""
    is_awaited = gang.metadata.labels.get(names.SCHEDULER_NAME) != DEFAULT_SCHEDULER_NAME
    return not gang.status.conditions and not is_awaited


def _describe_loss(gang: PodGang, groups: Sequence[_PodGroupState]) -> str:
    """The message of an unhealthy gang; a cause is kept after its pod is gone."""
    problem = next(filter(None, (describe_problem(each.members) for each in groups)), "")
    if problem:
        return f"{_LOSS_MESSAGE}: {problem}"
    old = find_condition(gang.status.conditions, UNHEALTHY)
    has_cause = old is not None and old.status == "True" and old.message.startswith(_LOSS_MESSAGE)
    return old.message if old is not None and has_cause else _LOSS_MESSAGE


def _format_fact(value: bool, fact: str) -> str:
    return fact if value else f"not {fact}"


def _compute_phase(groups: Sequence[_PodGroupState], scheduled: bool, ready: bool) -> Phase:
    if any(each.is_condition_true(FAILED_CONDITION) for each in groups):
        return "Failed"
    if groups and all(each.is_condition_true(COMPLETE_CONDITION) for each in groups):
        return "Succeeded"
    if ready:
        return "Running"
    return "Starting" if scheduled else "Pending"


def _last_transition(
    conditions: Sequence[Condition], type_: str, value: bool, last: str | None, now: datetime
) -> str | None:
    """When the condition last became true."""
    return format_rfc3339(now) if value and not is_condition_true(conditions, type_) else last
