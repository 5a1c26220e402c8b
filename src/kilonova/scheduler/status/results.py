"""Scheduling results of gangs as they are reported: reason and message. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilonova.scheduler.convert.quantities import format_amount
from kilonova.scheduler.core.backfill.shadow import BackfillReservation
from kilonova.scheduler.core.decisions import (
    GangPlacement,
    InsufficientCapacity,
    SchedulerError,
    UnschedulableGang,
    UnschedulableReason,
)
from kilonova.scheduler.core.model.gang_validation import InvalidGang
from kilonova.scheduler.core.queueing.ledger import LimitExceeded
from kilonova.scheduler.core.queueing.queues import QueueProblem
from kilonova.scheduler.error_reporter import internal_error_message
from kilonova.scheduler.failures.binding_rejections import BindingRejection

BINDING_REJECTED = "BindingRejected"
WAITING_FOR_TERMINATION = "WaitingForTermination"
SEARCH_BUDGET_EXCEEDED = "SearchBudgetExceeded"
_MAX_MESSAGE_LENGTH = 1024
_MAX_POD_NAMES = 5
"""Names of more pods than this are not listed."""


@dataclass(frozen=True, slots=True)
class SchedulingResult:
    """Whether a gang is placed, and why not.

    `is_not_capacity_related` indicates that no additional node would help.
    """

    is_placed: bool
    reason: str
    message: str
    is_not_capacity_related: bool = False

    @property
    def pod_reason(self) -> str:
        """The reason of a pod's `PodScheduled` condition. Cluster autoscalers add nodes for
        `Unschedulable` pods, as set by kube-scheduler, and for no others; `SchedulingGated` is for
        pods with gates."""
        if self.reason == BINDING_REJECTED:
            return "SchedulerError"
        return self.reason if self.is_not_capacity_related else "Unschedulable"


def placed_result(placement: GangPlacement) -> SchedulingResult:
    """The result of a gang that was placed."""
    nodes = len({pod_placement.row for pod_placement in placement.pods})
    pods = len(placement.pods)
    message = f"{count_text(pods, 'pod')} on {count_text(nodes, 'node')}"
    return SchedulingResult(True, "Placed", message)


def waiting_result(pods: Sequence[str]) -> SchedulingResult:
    """The result of a gang that waits for pods on its nodes to terminate."""
    names = ", ".join(sorted(pods)[:_MAX_POD_NAMES])
    more = f" and {len(pods) - _MAX_POD_NAMES} more" if len(pods) > _MAX_POD_NAMES else ""
    message = f"waiting for {count_text(len(pods), 'pod')} to terminate: {names}{more}"
    return SchedulingResult(False, WAITING_FOR_TERMINATION, message[:_MAX_MESSAGE_LENGTH])


def binding_rejected_result(rejections: Sequence[BindingRejection]) -> SchedulingResult:
    """The result of a gang with rejected bindings."""
    first = rejections[0]
    more = f" ({len(rejections)} bindings were rejected)" if len(rejections) > 1 else ""
    message = f"binding of pod {first.pod} to node {first.node} was rejected: {first.message}{more}"
    return SchedulingResult(
        False, BINDING_REJECTED, message[:_MAX_MESSAGE_LENGTH], is_not_capacity_related=True
    )


def rejection_reason(cause: UnschedulableReason) -> str:
    """The reason why a gang is unschedulable."""
    match cause:
        case LimitExceeded():
            return "QueueLimitReached"
        case QueueProblem():
            return cause.reason
        case InvalidGang():
            return "InvalidGang"
        case InsufficientCapacity(search_exceeded=True):
            return SEARCH_BUDGET_EXCEEDED
        case InsufficientCapacity():
            return "InsufficientCapacity"
        case SchedulerError():
            return "SchedulerError"


def rejected_result(
    rejection: UnschedulableGang,
    reservation: BackfillReservation | None,
    explain: Callable[[UnschedulableGang, BackfillReservation | None], str],
) -> SchedulingResult:
    """The result of an unschedulable gang; `explain` words insufficient capacity."""
    reason = rejection_reason(rejection.reason)
    match rejection.reason:
        case LimitExceeded() as exceeded:
            limit, used, requested = (
                format_amount(exceeded.resource, amount)
                for amount in (exceeded.limit, exceeded.used, exceeded.requested)
            )
            message = (
                f"queue {exceeded.queue} may use {limit}: {used} in use, {requested} more requested"
            )
            return SchedulingResult(False, reason, message, is_not_capacity_related=True)
        case QueueProblem() as problem:
            return SchedulingResult(
                False, reason, str(problem)[:_MAX_MESSAGE_LENGTH], is_not_capacity_related=True
            )
        case InvalidGang() as invalid:
            return SchedulingResult(
                False, reason, str(invalid)[:_MAX_MESSAGE_LENGTH], is_not_capacity_related=True
            )
        case InsufficientCapacity():
            return SchedulingResult(
                False, reason, explain(rejection, reservation)[:_MAX_MESSAGE_LENGTH]
            )
        case SchedulerError() as failed:
            return SchedulingResult(
                False, reason, internal_error_message(failed), is_not_capacity_related=True
            )


def count_text(count: int, what: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{count} {what}{'' if count == 1 else 's'}"
