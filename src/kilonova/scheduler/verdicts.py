"""What is said about a gang after a decision, in the words of those who read it. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.flaws import Flaw
from kilonova.scheduler.core.ledgers import Blocked
from kilonova.scheduler.core.plan import (
    NoRoom,
    Placement,
    Refusal,
    Reservation,
    SchedulerError,
    Why,
)
from kilonova.scheduler.core.queues import Problem
from kilonova.scheduler.reading.amounts import amount_text
from kilonova.scheduler.rejections import Rejection

BINDING_REJECTED = "BindingRejected"
TERMINATING = "WaitingForTermination"
_LONGEST = 1024
_NAMED = 5
"""Of so many pods the names are told."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a gang has a place, and why.

    `gated` says that room is not what it lacks: no node that anybody could add would help.
    """

    placed: bool
    reason: str
    message: str
    gated: bool = False

    @property
    def pod_reason(self) -> str:
        """The reason that pods give. Autoscalers buy nodes for those that are `Unschedulable`, as
        kube-scheduler has it, and for no others; `SchedulingGated` is for pods that have gates."""
        if self.reason == BINDING_REJECTED:
            return "SchedulerError"
        return self.reason if self.gated else "Unschedulable"


def placed_verdict(placement: Placement) -> Verdict:
    """A gang that got its place."""
    nodes = len({booking.row for booking in placement.bookings})
    pods = len(placement.bookings)
    message = f"{_many(pods, 'pod')} on {_many(nodes, 'node')}"
    return Verdict(True, "Placed", message)


def waiting_verdict(pods: Sequence[str]) -> Verdict:
    """A gang whose place is still in use by pods that are terminating."""
    names = ", ".join(sorted(pods)[:_NAMED])
    more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
    message = f"waiting for {_many(len(pods), 'pod')} to terminate: {names}{more}"
    return Verdict(False, TERMINATING, message[:_LONGEST])


def rejected_verdict(rejections: Sequence[Rejection]) -> Verdict:
    """A gang of which bindings were rejected."""
    first = rejections[0]
    more = f" ({len(rejections)} bindings were rejected)" if len(rejections) > 1 else ""
    message = f"binding of pod {first.pod} to node {first.node} was rejected: {first.message}{more}"
    return Verdict(False, BINDING_REJECTED, message[:_LONGEST], gated=True)


def reason_of(why: Why) -> str:
    """One word for why a gang has no place."""
    match why:
        case Blocked():
            return "QueueLimit"
        case Problem():
            return why.reason
        case Flaw():
            return "Malformed"
        case NoRoom(search_exceeded=True):
            return "SearchBudgetExceeded"
        case NoRoom():
            return "NoRoom"
        case SchedulerError():
            return "SchedulerError"


def refused_verdict(
    refusal: Refusal,
    reservation: Reservation | None,
    explain: Callable[[Refusal, Reservation | None], str],
) -> Verdict:
    """A gang that got none; `explain` says what of the nodes was not enough."""
    reason = reason_of(refusal.why)
    match refusal.why:
        case Blocked() as blocked:
            limit, used, asked = (
                amount_text(blocked.resource, amount)
                for amount in (blocked.limit, blocked.used, blocked.asked)
            )
            message = (
                f"queue {blocked.queue} may use {limit}: {used} in use, {asked} more asked for"
            )
            return Verdict(False, reason, message, gated=True)
        case Problem() as problem:
            return Verdict(False, reason, str(problem)[:_LONGEST], gated=True)
        case Flaw() as flaw:
            return Verdict(False, reason, str(flaw)[:_LONGEST], gated=True)
        case NoRoom():
            return Verdict(False, reason, explain(refusal, reservation)[:_LONGEST])
        case SchedulerError() as failed:
            return Verdict(False, reason, internal_error(failed), gated=True)


def internal_error(failed: SchedulerError) -> str:
    """What is said of a gang that could not be decided about because of a defect."""
    details = "retried with backoff, details are in the scheduler's log"
    return f"internal error while scheduling: {failed.error[: _LONGEST // 2]}; {details}"


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
