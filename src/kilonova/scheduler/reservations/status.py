"""The status of a reservation. Pure."""

from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition
from kilonova.api.scheduling import Reservation, ReservationStatus
from kilonova.api.times import format_rfc3339
from kilonova.kube.status import encode_condition, with_condition
from kilonova.scheduler.cache.reservations.state import ReservationState
from kilonova.scheduler.status.results import SchedulingResult, count_text

RESERVED = "Reserved"


def compute_status(
    reservation: Reservation, state: ReservationState, rejection: SchedulingResult | None
) -> ReservationStatus | None:
    """The status of a reservation, None before the first attempt; `rejection` is the result of the
    last attempt."""
    condition = _reserved_condition(state, rejection)
    if condition is None:
        return None
    old = reservation.status
    since, ends_at = state.since, state.ends_at
    return ReservationStatus(
        observed_generation=reservation.metadata.generation,
        phase=state.phase,
        nodes=state.nodes,
        used_by=state.used_by,
        reserved_at=old.reserved_at if state.expired else _to_rfc3339(since),
        expires_at=old.expires_at if state.expired else _to_rfc3339(ends_at),
        conditions=(condition,),
    )


def status_change(
    reservation: Reservation, new: ReservationStatus, now: datetime
) -> JsonObject | None:
    """The status to apply; None if the reservation has it already. The transition time of a
    condition changes only with its status."""
    (condition,) = new.conditions
    condition = replace(condition, observed_generation=new.observed_generation)
    conditions = with_condition(reservation.status.conditions, condition, now)
    if replace(new, conditions=conditions) == reservation.status:
        return None
    status: JsonObject = msgspec.to_builtins(replace(new, conditions=()))
    status["phase"] = new.phase
    status["conditions"] = [encode_condition(each) for each in conditions if each.type == RESERVED]
    return status


def changes_more_than_message(reservation: Reservation, new: ReservationStatus) -> bool:
    """Whether anything besides the condition's message changes."""
    return replace(reservation.status, conditions=()) != replace(new, conditions=())


def _reserved_condition(
    state: ReservationState, rejection: SchedulingResult | None
) -> Condition | None:
    if state.expired:
        return Condition(RESERVED, "False", "Expired", "reservation expired")
    if state.starts_at is not None:
        return Condition(
            RESERVED, "False", "NotStarted", f"starts at {_to_rfc3339(state.starts_at)}"
        )
    pods = sum(reserved_node.pods for reserved_node in state.nodes)
    nodes = len({reserved_node.name for reserved_node in state.nodes})
    if state.is_complete:
        return Condition(
            RESERVED,
            "True",
            "CapacityReserved",
            f"capacity reserved for {count_text(pods, 'pod')} on {count_text(nodes, 'node')}",
        )
    if state.not_ready is not None:
        return Condition(RESERVED, "False", state.not_ready.reason, state.not_ready.message)
    return rejection and Condition(RESERVED, "False", rejection.reason, rejection.message)


def _to_rfc3339(moment: float | None) -> str | None:
    return None if moment is None else format_rfc3339(datetime.fromtimestamp(moment, UTC))
