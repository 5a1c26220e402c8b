"""The state of a reservation, from which its status is computed. Pure."""

from dataclasses import dataclass

from kilonova.api.podgang import NamespacedName
from kilonova.api.scheduling import ReservationPhase
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady
from kilonova.scheduler.convert.reservations.reserved_nodes import ReservedNodes


@dataclass(frozen=True, slots=True)
class ReservationState:
    """The state of a reservation; times in seconds since the epoch."""

    nodes: ReservedNodes = ()
    since: float | None = None
    starts_at: float | None = None
    """When it starts, if it has not started yet."""
    ends_at: float | None = None
    expired: bool = False
    is_complete: bool = False
    """Whether all requested capacity is reserved."""
    used_by: NamespacedName | None = None
    not_ready: GangNotReady | None = None
    """Why it cannot be scheduled as it is."""

    @property
    def next_transition_at(self) -> float | None:
        """When the phase changes next by itself."""
        if self.expired:
            return None
        return self.ends_at if self.starts_at is None else self.starts_at

    @property
    def phase(self) -> ReservationPhase:
        """The phase in the status."""
        if self.expired:
            return "Expired"
        if self.starts_at is not None:
            return "Waiting"
        if not self.is_complete:
            return "Pending"
        return "Used" if self.used_by is not None else "Reserved"
