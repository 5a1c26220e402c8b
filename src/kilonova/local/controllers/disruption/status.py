"""The allowed disruptions of a budget, from its pods. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from kilonova.api.times import parse_time
from kilonova.kube.status import with_condition
from kilonova.local.controllers.apps.pod_state import resolve_int_or_percent
from kilonova.local.controllers.disruption.objects import (
    DISRUPTION_ALLOWED,
    PodDisruptionBudget,
    PodDisruptionBudgetCondition,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
)
from kilonova.local.objects.core import Pod

DELETION_TIMEOUT = timedelta(minutes=2)
"""A disrupted pod that is not being deleted after that time is assumed to stay."""

replace = msgspec.structs.replace


def uses_scale(spec: PodDisruptionBudgetSpec) -> bool:
    """Whether a budget is relative to the scale of the pods' controllers, not a plain number."""
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def compute_status(
    budget: PodDisruptionBudget, pods: Sequence[Pod], scale: int, now: datetime
) -> tuple[PodDisruptionBudgetStatus, float | None]:
    """The status computed from the pods, and in how many seconds to check again.

    `scale` is how many pods their controllers desire together, if the budget depends on it.
    """
    expected, desired = _compute_expected(budget.spec, len(pods), scale)
    disrupted = _select_disrupted(budget, pods, now)
    healthy = sum(
        pod.is_ready and not pod.metadata.deletion_timestamp and pod.metadata.name not in disrupted
        for pod in pods
    )
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status = PodDisruptionBudgetStatus(
        budget.metadata.generation, disrupted, allowed, healthy, desired, expected
    )
    conditions = with_condition(budget.status.conditions, _build_condition(status), now)
    next_check = min(
        ((_deletion_deadline(time) - now).total_seconds() for time in disrupted.values()),
        default=None,
    )
    return replace(status, conditions=conditions), next_check


def build_failed_status(
    budget: PodDisruptionBudget, problem: str, now: datetime
) -> PodDisruptionBudgetStatus:
    """No disruption is allowed while the expected number of pods is unknown."""
    generation = budget.status.observed_generation
    failed = PodDisruptionBudgetCondition(
        DISRUPTION_ALLOWED, "False", generation, "", "SyncFailed", problem
    )
    return replace(
        budget.status,
        disruptions_allowed=0,
        conditions=with_condition(budget.status.conditions, failed, now),
    )


def _compute_expected(spec: PodDisruptionBudgetSpec, pods: int, scale: int) -> tuple[int, int]:
    """How many pods are expected, and how many of them must be healthy."""
    if spec.max_unavailable is not None:
        return scale, max(
            0, scale - resolve_int_or_percent(spec.max_unavailable, scale, round_up=True)
        )
    if isinstance(spec.min_available, str):
        return scale, resolve_int_or_percent(spec.min_available, scale, round_up=True)
    return (0, 0) if spec.min_available is None else (pods, spec.min_available)


def _select_disrupted(
    budget: PodDisruptionBudget, pods: Sequence[Pod], now: datetime
) -> dict[str, str]:
    """The evicted pods whose deletion has not been observed."""
    listed = budget.status.disrupted_pods
    return {
        pod.metadata.name: listed[pod.metadata.name]
        for pod in pods
        if pod.metadata.name in listed
        and not pod.metadata.deletion_timestamp
        and _deletion_deadline(listed[pod.metadata.name]) >= now
    }


def find_overdue_pods(budget: PodDisruptionBudget, pods: Sequence[Pod], now: datetime) -> list[Pod]:
    """Pods that were evicted long ago and still exist."""
    listed = budget.status.disrupted_pods
    return [
        pod
        for pod in pods
        if not pod.metadata.deletion_timestamp
        and pod.metadata.name in listed
        and _deletion_deadline(listed[pod.metadata.name]) < now
    ]


def _deletion_deadline(time: str) -> datetime:
    return parse_time(time) + DELETION_TIMEOUT


def _build_condition(status: PodDisruptionBudgetStatus) -> PodDisruptionBudgetCondition:
    generation = status.observed_generation
    if status.disruptions_allowed:
        return PodDisruptionBudgetCondition(
            DISRUPTION_ALLOWED, "True", generation, "", "SufficientPods"
        )
    return PodDisruptionBudgetCondition(
        DISRUPTION_ALLOWED, "False", generation, "", "InsufficientPods"
    )
