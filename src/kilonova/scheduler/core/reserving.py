"""Room kept for a gang that waits for others to end, while smaller ones run past it.

For a gang that waited long without a place, the earliest moment is worked out at which it would
fit if what runs ends as expected. That moment, with the gang in its place, is the **shadow** of the
cluster. Who ends before it may take any room that is free now; who does not must leave the shadow
as it is: it needs room in both. So the gang is never delayed by those who pass it.

How long a gang runs is what its owner said, or what was predicted; where nobody knows, it is taken
to go on for as long as it has run already.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.cluster import Cluster, Standing
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.giving import devices_for
from kilonova.scheduler.core.placing import Placer
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import Booking, Snapshot

_AT_LEAST = 600.0
"""Seconds that what runs for an unknown time goes on at least."""


def expected_end(standing: Standing, now: float) -> float:
    """When a gang will probably leave; one that overruns is taken to go on for a while."""
    ran = now - standing.since
    if standing.gang.duration is not None and standing.gang.duration > ran:
        return standing.since + standing.gang.duration
    return now + max(ran, _AT_LEAST)


@dataclass(frozen=True, slots=True)
class Reservation:
    """When a gang will have its place, and on which nodes."""

    gang: Gang
    at: float
    nodes: tuple[str, ...]


class Shadow:
    """The cluster at the moment for which a gang has a reservation."""

    def __init__(self, reservation: Reservation, snapshot: Snapshot, rooms: Rooms) -> None:
        self.reservation = reservation
        self.rooms = rooms
        self._snapshot = snapshot

    def ends_before(self, gang: Gang, now: float) -> bool:
        """Whether a gang that starts now is gone by then."""
        return gang.duration is not None and now + gang.duration <= self.reservation.at

    def take(self, bookings: Sequence[Booking]) -> bool:
        """Counts what is booked now and will still be there; False, and nothing is counted, if the
        reservation would suffer."""
        mark = self._snapshot.mark()
        for booking in bookings:
            if self.rooms.room(booking.shape)[booking.row] < 1:
                self._snapshot.undo(mark)
                return False
            devices = devices_for(self._snapshot, booking.row, booking.shape, 1)[0]
            self._snapshot.book(Booking(booking.member, booking.row, devices, booking.gang))
        self._snapshot.keep(mark)
        return True


def reserve(
    cluster: Cluster, rooms: Rooms, placer: Placer, gang: Gang, now: float
) -> Shadow | None:
    """The shadow in which a gang has its place as early as can be; None if it would have none even
    if all others were gone."""
    snapshot = cluster.snapshot
    ends = sorted((expected_end(one, now), name) for name, one in cluster.standing.items())
    mark = snapshot.mark()
    try:
        gone = _first_fit(cluster, placer, gang, [name for _, name in ends])
        if gone is None:
            return None
        for _, name in ends[:gone]:
            snapshot.release_all(list(cluster.standing[name].pods))
        bookings = placer.place(gang)
        assert bookings is not None
        nodes = tuple(sorted({snapshot.names[booking.row] for booking in bookings}))
        reservation = Reservation(gang, ends[gone - 1][0] if gone else now, nodes)
        copied = snapshot.copy()
        return Shadow(reservation, copied, rooms.of(copied))
    finally:
        snapshot.undo(mark)


def _first_fit(cluster: Cluster, placer: Placer, gang: Gang, order: list[str]) -> int | None:
    """How many gangs, in this order, must be gone before another fits."""

    def fits(count: int) -> bool:
        mark = cluster.snapshot.mark()
        pods = [pod for name in order[:count] for pod in cluster.standing[name].pods]
        cluster.snapshot.release_all(pods)
        placed = placer.place(gang) is not None
        cluster.snapshot.undo(mark)
        return placed

    if not fits(len(order)):
        return None
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low
