"""Room for a gang by letting others go: the cheapest units without which the whole of it fits.

Nothing is taken before the full fit is simulated. For a pod alone a unit that makes room where it
stands is looked for first. Otherwise domains are compared, each by what it would cost to make room
within it: a node for a pod alone, a domain of the level that the gang requires, or all nodes.
Of the units that were taken on the way, those are given back that are not in the way after all.

Who would break a limit of its queue makes room there, too: the cheapest units that count in the
queue with the limit go first, wherever they stand.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.filters import Reason
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.giving import are_free
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.lacking import likely_domains
from kilonova.scheduler.core.nearness import clashes
from kilonova.scheduler.core.placing import Placer, lone
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import Booking, Snapshot
from kilonova.scheduler.core.victims import Claim, Cost, Unit, Victims

_SINGLE_UNITS = 32

_Price = tuple[int, float, int, tuple[str, ...]]
"""Highest priority that goes, work that is lost, number of pods, and their gangs."""


@dataclass(frozen=True, slots=True)
class Room:
    """Room that was found: what was booked, and who has to go for it."""

    bookings: tuple[Booking, ...]
    units: tuple[Unit, ...] = ()


class Evictor:
    """Makes room in a cluster, one gang at a time."""

    def __init__(
        self,
        cluster: Cluster,
        rooms: Rooms,
        placer: Placer,
        now: float,
        newcomers: Collection[str] = (),
    ) -> None:
        self._cluster = cluster
        self._snapshot = cluster.snapshot
        self._rooms = rooms
        self._placer = placer
        self.victims = Victims(cluster, now, newcomers)

    def make_room(self, gang: Gang, *, limited: bool = True) -> Room | None:
        """Books a gang in the place of others, whose bookings are released; None, and nothing is
        changed, if it has no right to enough. What it can do without pushes nobody out. Limits of
        queues hold, if it is limited."""
        gang = gang.at_least()
        return self._instead_of_one(gang, limited) or self._in_cheapest_domain(gang, limited)

    def _instead_of_one(self, gang: Gang, limited: bool) -> Room | None:
        member = lone(gang)
        if member is None:
            return None
        fits = self._rooms.reasons(member.shape)
        claim = self.victims.claim(gang, limited=limited)
        for unit in islice(self.victims.instead(claim), _SINGLE_UNITS):
            rows = {self._snapshot.bookings[pod].row for pod in unit.pods}
            if not claim.broken and all(fits[row] != Reason.FITS for row in rows):
                continue
            mark = self._snapshot.mark()
            self._snapshot.release_all(unit.pods)
            there = None if claim.broken else np.array(sorted(rows), np.intp)
            bookings = self._placer.place(gang, there)
            if bookings is not None:
                claim.take(unit)
                if claim.admits(bookings):
                    self._snapshot.keep(mark)
                    return Room(tuple(bookings), (unit,))
                claim = self.victims.claim(gang, limited=limited)
            self._snapshot.undo(mark)
        return None

    def _in_cheapest_domain(self, gang: Gang, limited: bool) -> Room | None:
        best: tuple[_Price, Rows] | None = None
        for rows in likely_domains(self._snapshot, self._rooms, gang):
            mark = self._snapshot.mark()
            room = self._within(self.victims.claim(gang, limited=limited), rows)
            self._snapshot.undo(mark)
            if room is not None:
                price = _price(room.units)
                if best is None or price < best[0]:
                    best = price, rows
        if best is None:
            return None
        return self._within(self.victims.claim(gang, limited=limited), best[1])

    def _within(self, claim: Claim, rows: Rows) -> Room | None:
        """Lets units go that keep the gang above a limit, then units in these rows, more and more
        of them, until the gang fits there."""
        stands = [self._snapshot.pods_on[int(row)].values() for row in rows]
        gangs = sorted({booking.gang for pods in stands for booking in pods if booking.gang})
        mark = self._snapshot.mark()
        taken = self._released(self.victims.relieving(claim))
        bookings = self._placer.place(claim.gang, rows) if taken and not claim.broken else None
        units = self.victims.of(claim, gangs)
        step = 1
        while bookings is None:
            more = self._released(islice(units, step))
            if claim.broken or not more:
                self._snapshot.undo(mark)
                return None
            taken += more
            bookings = self._placer.place(claim.gang, rows)
            step = 2 * step
        if not claim.admits(bookings):
            self._snapshot.undo(mark)
            return None
        needed = self._give_back(claim, taken)
        self._snapshot.keep(mark)
        return Room(tuple(bookings), tuple(needed))

    def _released(self, units: Iterable[Unit]) -> list[tuple[Unit, list[Booking]]]:
        """Lets units go, each with what of it was still there."""
        bookings = self._snapshot.bookings
        return [
            (unit, self._snapshot.release_all([pod for pod in unit.pods if pod in bookings]))
            for unit in units
        ]

    def _give_back(self, claim: Claim, taken: list[tuple[Unit, list[Booking]]]) -> list[Unit]:
        """Restores units that are not in the way, the dearest first; a whole gang or nothing."""
        needed: list[Unit] = []
        whole: set[str] = set()
        for unit, bookings in sorted(taken, key=lambda one: one[0].cost, reverse=True):
            if unit.gang in whole:
                continue
            pods = [booking.pod for booking in bookings]
            if fit_again(self._snapshot, bookings) and claim.may_return(unit.gang, pods):
                self._snapshot.book_all(bookings)
            else:
                needed.append(unit)
                if unit.cost[1]:
                    whole.add(unit.gang)
        return needed


def fit_again(snapshot: Snapshot, bookings: Sequence[Booking]) -> bool:
    """Whether pods may have the very places and devices back that they had."""
    if not all(are_free(snapshot, b.row, b.devices) for b in bookings):
        return False
    if any(clashes(snapshot, booking.member, booking.row) for booking in bookings):
        return False
    mark = snapshot.mark()
    snapshot.book_all(bookings)
    rows = sorted({booking.row for booking in bookings})
    fits = bool(
        (snapshot.free[:, rows] >= 0).all()
        and (snapshot.gpu_free[rows] >= 0).all()
        and not snapshot.claims.overdrawn(booking.claims for booking in bookings)
    )
    snapshot.undo(mark)
    return fits


def _price(units: tuple[Unit, ...]) -> _Price:
    costs: list[Cost] = [unit.cost for unit in units]
    return (
        max((cost[0] for cost in costs), default=0),
        sum(cost[2] for cost in costs),
        sum(len(unit.pods) for unit in units),
        tuple(sorted(unit.gang for unit in units)),
    )
