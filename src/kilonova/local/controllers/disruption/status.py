"""What a budget allows, from the pods that there are. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from kilonova.api.times import parse_time, rfc3339
from kilonova.local.controllers.apps.facts import share_of
from kilonova.local.controllers.disruption.objects import (
    DISRUPTION_ALLOWED,
    Budget,
    BudgetCondition,
    BudgetSpec,
    BudgetStatus,
)
from kilonova.local.controllers.objects import Pod

DELETION_TIMEOUT = timedelta(minutes=2)
"""A pod that was to go and has not been marked by then is taken to stay."""

replace = msgspec.structs.replace


def counts_by_scale(spec: BudgetSpec) -> bool:
    """Whether a budget is a part of what the pods' controllers want, not a plain number."""
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def new_status(
    budget: Budget, pods: Sequence[Pod], scale: int, now: datetime
) -> tuple[BudgetStatus, float | None]:
    """The status that the pods make, and in how many seconds to look again.

    `scale` is how many pods their controllers want together, where the budget counts by it.
    """
    expected, desired = _wanted(budget.spec, len(pods), scale)
    disrupted = _disrupted(budget, pods, now)
    healthy = sum(
        pod.ready and not pod.metadata.deletion_timestamp and pod.metadata.name not in disrupted
        for pod in pods
    )
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status = BudgetStatus(
        budget.metadata.generation, disrupted, allowed, healthy, desired, expected
    )
    conditions = _conditions(budget, _allowance(status), now)
    soonest = min(
        ((_timeout(time) - now).total_seconds() for time in disrupted.values()), default=None
    )
    return replace(status, conditions=conditions), soonest


def failed_status(budget: Budget, problem: str, now: datetime) -> BudgetStatus:
    """Nothing may go while it is not known how much is wanted."""
    generation = budget.status.observed_generation
    failed = BudgetCondition(DISRUPTION_ALLOWED, "False", generation, "", "SyncFailed", problem)
    return replace(
        budget.status, disruptions_allowed=0, conditions=_conditions(budget, failed, now)
    )


def _wanted(spec: BudgetSpec, pods: int, scale: int) -> tuple[int, int]:
    """How many pods are expected, and how many of them must be healthy."""
    if spec.max_unavailable is not None:
        return scale, max(0, scale - share_of(spec.max_unavailable, scale, up=True))
    if isinstance(spec.min_available, str):
        return scale, share_of(spec.min_available, scale, up=True)
    return (0, 0) if spec.min_available is None else (pods, spec.min_available)


def _disrupted(budget: Budget, pods: Sequence[Pod], now: datetime) -> dict[str, str]:
    """The pods that were allowed to go and have not been seen to."""
    listed = budget.status.disrupted_pods
    return {
        pod.metadata.name: listed[pod.metadata.name]
        for pod in pods
        if pod.metadata.name in listed
        and not pod.metadata.deletion_timestamp
        and _timeout(listed[pod.metadata.name]) >= now
    }


def overdue(budget: Budget, pods: Sequence[Pod], now: datetime) -> list[Pod]:
    """Pods that were allowed to go long ago, and are still there."""
    listed = budget.status.disrupted_pods
    return [
        pod
        for pod in pods
        if not pod.metadata.deletion_timestamp
        and pod.metadata.name in listed
        and _timeout(listed[pod.metadata.name]) < now
    ]


def _timeout(time: str) -> datetime:
    return parse_time(time) + DELETION_TIMEOUT


def _allowance(status: BudgetStatus) -> BudgetCondition:
    generation = status.observed_generation
    if status.disruptions_allowed:
        return BudgetCondition(DISRUPTION_ALLOWED, "True", generation, "", "SufficientPods")
    return BudgetCondition(DISRUPTION_ALLOWED, "False", generation, "", "InsufficientPods")


def _conditions(
    budget: Budget, wanted: BudgetCondition, now: datetime
) -> tuple[BudgetCondition, ...]:
    present = budget.status.conditions
    before = next((each for each in present if each.type == wanted.type), None)
    if before is None:
        return (*present, replace(wanted, last_transition_time=rfc3339(now)))
    same = before.status == wanted.status
    since = before.last_transition_time if same else rfc3339(now)
    changed = replace(wanted, last_transition_time=since)
    return tuple(changed if each is before else each for each in present)
