"""Room for a gang by letting others go: the cheapest units without which the whole of it fits.

Nothing is taken before the full fit is simulated. For a pod alone a unit that makes room where it
stands is looked for first. Otherwise domains are compared, each by what it would cost to make room
within it: a node for a pod alone, a domain of the level that the gang requires, or all nodes.
Of the units that were taken on the way, those are given back that are not in the way after all.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.filters import Reason
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.giving import are_free
from kilonova.scheduler.core.labels import NAME, Codes, Flags, Rows
from kilonova.scheduler.core.nearness import clashes
from kilonova.scheduler.core.placing import Placer, lone
from kilonova.scheduler.core.rooms import Rooms, Scores
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.core.victims import Cost, Unit, Victims

_SINGLE_UNITS = 32
_DOMAINS = 16
"""So many domains are compared, those that lack the least first."""

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

    def make_room(self, gang: Gang) -> Room | None:
        """Books a gang in the place of others, whose bookings are released; None, and nothing is
        changed, if it has no right to enough. What it can do without pushes nobody out."""
        gang = gang.at_least()
        return self._instead_of_one(gang) or self._in_cheapest_domain(gang)

    def _instead_of_one(self, gang: Gang) -> Room | None:
        member = lone(gang)
        if member is None:
            return None
        fits = self._rooms.reasons(member.shape)
        for unit in islice(self.victims.instead(gang), _SINGLE_UNITS):
            rows = {self._snapshot.bookings[pod].row for pod in unit.pods}
            if all(fits[row] != Reason.FITS for row in rows):
                continue
            mark = self._snapshot.mark()
            self._snapshot.release_all(unit.pods)
            bookings = self._placer.place(gang, np.array(sorted(rows), np.intp))
            if bookings is not None:
                self._snapshot.keep(mark)
                return Room(tuple(bookings), (unit,))
            self._snapshot.undo(mark)
        return None

    def _in_cheapest_domain(self, gang: Gang) -> Room | None:
        best: tuple[_Price, Rows] | None = None
        for rows in self._domains(gang):
            mark = self._snapshot.mark()
            room = self._within(gang, rows)
            self._snapshot.undo(mark)
            if room is not None:
                price = _price(room.units)
                if best is None or price < best[0]:
                    best = price, rows
        return None if best is None else self._within(gang, best[1])

    def _domains(self, gang: Gang) -> Iterator[Rows]:
        """Rows within which room could be made: there is enough with all that may go."""
        snapshot = self._snapshot
        rows = np.flatnonzero(snapshot.alive[: snapshot.size])
        level = NAME if lone(gang) is not None else _level(gang)
        if not level:
            yield rows
            return
        domains = snapshot.labels.domains(level, rows)
        rows, domains = rows[domains >= 0], domains[domains >= 0]
        if not len(rows):
            return
        lacking = self._lacking(gang, rows, domains)
        names = snapshot.labels.column(level).values
        able = np.flatnonzero(np.isfinite(lacking)).tolist()
        for domain in sorted(able, key=lambda one: (lacking[one], names[one]))[:_DOMAINS]:
            yield rows[domains == domain]

    def _lacking(self, gang: Gang, rows: Rows, domains: Codes) -> Scores:
        """By domain, which part of what the gang needs is not free; infinite where it could never
        stand."""
        snapshot = self._snapshot
        count = int(domains.max()) + 1
        lacking = np.zeros(count)
        needs: dict[str, int] = {}
        for group in gang.groups:
            for member in group.members[: group.needed]:
                for name, amount in member.shape.requests:
                    needs[name] = needs.get(name, 0) + amount
        allowed = self._allowed(gang, rows)
        for name, need in needs.items():
            column = snapshot.column(name)
            total = np.bincount(
                domains, weights=snapshot.allocatable[column, rows] * allowed, minlength=count
            )
            free = np.bincount(
                domains, weights=snapshot.free[column, rows] * allowed, minlength=count
            )
            lacking[total < need] = np.inf
            if need:
                lacking = np.maximum(lacking, (need - free) / need)
        return lacking

    def _allowed(self, gang: Gang, rows: Rows) -> Flags:
        allowed = np.zeros(len(rows), np.bool_)
        for shape in {m.shape for group in gang.groups for m in group.members[: group.needed]}:
            allowed |= self._rooms.reasons(shape)[rows] == Reason.FITS
        return allowed

    def _within(self, gang: Gang, rows: Rows) -> Room | None:
        """Lets units go in these rows, more and more of them, until the gang fits there."""
        stands = [self._snapshot.pods_on[int(row)].values() for row in rows]
        gangs = sorted({booking.gang for pods in stands for booking in pods if booking.gang})
        units = self.victims.of(gang, gangs)
        taken: list[tuple[Unit, list[Booking]]] = []
        mark = self._snapshot.mark()
        step = 1
        while True:
            more = list(islice(units, step))
            if not more:
                self._snapshot.undo(mark)
                return None
            for unit in more:
                pods = [pod for pod in unit.pods if pod in self._snapshot.bookings]
                taken.append((unit, self._snapshot.release_all(pods)))
            bookings = self._placer.place(gang, rows)
            if bookings is not None:
                break
            step = 2 * step
        needed = self._give_back(taken)
        self._snapshot.keep(mark)
        return Room(tuple(bookings), tuple(needed))

    def _give_back(self, taken: list[tuple[Unit, list[Booking]]]) -> list[Unit]:
        """Restores units that are not in the way, the dearest first; a whole gang or nothing."""
        needed: list[Unit] = []
        whole: set[str] = set()
        for unit, bookings in sorted(taken, key=lambda one: one[0].cost, reverse=True):
            if unit.gang in whole:
                continue
            if self._fits_again(bookings):
                self._snapshot.book_all(bookings)
            else:
                needed.append(unit)
                if unit.cost[1]:
                    whole.add(unit.gang)
        return needed

    def _fits_again(self, bookings: list[Booking]) -> bool:
        if not all(are_free(self._snapshot, b.row, b.devices) for b in bookings):
            return False
        if any(clashes(self._snapshot, booking.member, booking.row) for booking in bookings):
            return False
        mark = self._snapshot.mark()
        self._snapshot.book_all(bookings)
        rows = sorted({booking.row for booking in bookings})
        fits = bool(
            (self._snapshot.free[:, rows] >= 0).all()
            and (self._snapshot.gpu_free[rows] >= 0).all()
            and not self._snapshot.claims.overdrawn(booking.claims for booking in bookings)
        )
        self._snapshot.undo(mark)
        return fits


def _level(gang: Gang) -> str:
    """The level within one domain of which a gang must stand."""
    only = gang.groups[0].pack.required if len(gang.groups) == 1 else ""
    return gang.pack.required or only


def _price(units: tuple[Unit, ...]) -> _Price:
    costs: list[Cost] = [unit.cost for unit in units]
    return (
        max((cost[0] for cost in costs), default=0),
        sum(cost[2] for cost in costs),
        sum(len(unit.pods) for unit in units),
        tuple(sorted(unit.gang for unit in units)),
    )
