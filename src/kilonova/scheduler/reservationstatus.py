"""What is told of a reservation. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition
from kilonova.api.podgang import NamespacedName
from kilonova.api.scheduling import Reservation, ReservationPhase, ReservationStatus
from kilonova.api.times import rfc3339
from kilonova.scheduler.reading.gangs import NotYet
from kilonova.scheduler.reading.keptplaces import Places
from kilonova.scheduler.verdicts import Verdict

RESERVED = "Reserved"


@dataclass(frozen=True, slots=True)
class State:
    """How far a reservation is. Times are seconds since 1970."""

    places: Places = ()
    since: float | None = None
    opens: float | None = None
    """When it starts, if it has not started yet."""
    ends: float | None = None
    expired: bool = False
    complete: bool = False
    """Whether it has all that it asks for."""
    used_by: NamespacedName | None = None
    not_yet: NotYet | None = None
    """Why it cannot be placed as it is."""

    @property
    def next_at(self) -> float | None:
        """When something will happen to it by itself."""
        if self.expired:
            return None
        return self.ends if self.opens is None else self.opens

    @property
    def phase(self) -> ReservationPhase:
        """The one word for it."""
        if self.expired:
            return "Expired"
        if self.opens is not None:
            return "Waiting"
        if not self.complete:
            return "Pending"
        return "Used" if self.used_by is not None else "Reserved"


def status_of(
    reservation: Reservation, state: State, refusal: Verdict | None
) -> ReservationStatus | None:
    """The status of a reservation, None while nothing is decided about it; `refusal` is why it
    found no place when it was tried last."""
    condition = _condition(state, refusal)
    if condition is None:
        return None
    old = reservation.status
    since, ends = state.since, state.ends
    return ReservationStatus(
        observed_generation=reservation.metadata.generation,
        phase=state.phase,
        nodes=state.places,
        used_by=state.used_by,
        reserved_at=old.reserved_at if state.expired else _time(since),
        expires_at=old.expires_at if state.expired else _time(ends),
        conditions=(condition,),
    )


def status_change(
    reservation: Reservation, new: ReservationStatus, now: datetime
) -> JsonObject | None:
    """What to apply, None if the reservation says it already. A condition's time changes only with
    its status."""
    (condition,) = new.conditions
    old = next((each for each in reservation.status.conditions if each.type == RESERVED), None)
    if _facts(reservation.status, old) == _facts(new, condition):
        return None
    since = old.last_transition_time if old is not None and old.status == condition.status else None
    told = Condition(
        condition.type,
        condition.status,
        condition.reason,
        condition.message,
        since or rfc3339(now),
        observed_generation=new.observed_generation,
    )
    status: JsonObject = msgspec.to_builtins(msgspec.structs.replace(new, conditions=()))
    status["phase"] = new.phase
    wire: JsonObject = msgspec.to_builtins(told)
    status["conditions"] = [{key: value for key, value in wire.items() if value is not None}]
    return status


def is_urgent(reservation: Reservation, new: ReservationStatus) -> bool:
    """Whether more changes than words."""
    return _facts(reservation.status, None) != _facts(new, None)


def _condition(state: State, refusal: Verdict | None) -> Condition | None:
    if state.expired:
        return Condition(RESERVED, "False", "Expired", "its time is over")
    if state.opens is not None:
        return Condition(RESERVED, "False", "NotStarted", f"starts at {_time(state.opens)}")
    pods = sum(place.pods for place in state.places)
    nodes = len({place.name for place in state.places})
    if state.complete:
        return Condition(
            RESERVED, "True", "Kept", f"room for {_many(pods, 'pod')} on {_many(nodes, 'node')}"
        )
    if state.not_yet is not None:
        return Condition(RESERVED, "False", state.not_yet.reason, state.not_yet.message)
    return refusal and Condition(RESERVED, "False", refusal.reason, refusal.message)


def _facts(status: ReservationStatus, condition: Condition | None) -> tuple[object, ...]:
    said = condition and (condition.status, condition.reason, condition.message)
    return (
        status.observed_generation,
        status.phase,
        status.nodes,
        status.used_by,
        status.reserved_at,
        status.expires_at,
        said,
    )


def _time(moment: float | None) -> str | None:
    return None if moment is None else rfc3339(datetime.fromtimestamp(moment, UTC))


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
