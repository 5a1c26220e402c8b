"""Room for a gang by letting others go: the cheapest units without which the whole of it fits.

Nothing is taken before the full fit is simulated. For a pod alone a unit that makes room where it
stands is looked for first. Otherwise domains are compared, each by what it would cost to make room
within it: a node for a pod alone, a domain of the level that the gang requires, or all nodes.
In each, units are taken as they come, the cheapest first; then those stay after all without which
the gang has its place still, there or elsewhere, and nobody goes in vain.

Taking what comes first may use up the right to the unit that is needed. Where it leads nowhere
although there is room without all that might be taken, sets of units are tried: all of them where
they are few, else all units are taken and given back until what is left is right.

Who would break a limit of its queue makes room there, too: the cheapest units that count in the
queue with the limit go first, wherever they stand.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice

import numpy as np

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.entitlement import Claim, Cost, Unit
from kilonova.scheduler.core.filters import Reason
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.labels import Flags, Rows
from kilonova.scheduler.core.lacking import all_domains
from kilonova.scheduler.core.placing import Placer, lone
from kilonova.scheduler.core.preemption_trial import Taken, Trial
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.core.victims import Victims

_SINGLE_UNITS = 32
_DOMAINS = 16
"""So many domains are compared."""
_LOOKED_AT = 4096
"""So many domains are looked at for gangs that might have to make way."""
_TRIALS = 64
"""So many sets of units are tried."""
_FEW_UNITS = 10
"""Of so many units all sets are compared."""
_MANY_UNITS = 64
"""Of more units no sets are tried."""

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
        claim = self.victims.claim(gang.at_least(), limited=limited)
        if not claim.sources:
            return None
        room = self._instead_of_one(claim)
        if room is not None:
            return room
        room = self._in_cheapest_domain(claim)
        if room is not None:
            self._snapshot.release_all([pod for unit in room.units for pod in unit.pods])
            self._snapshot.book_all(room.bookings)
        return room

    def _instead_of_one(self, claim: Claim) -> Room | None:
        """Books a pod alone in the place of one unit."""
        member = lone(claim.gang)
        if member is None:
            return None
        fits = self._rooms.reasons(member.shape)
        for unit in islice(self.victims.instead(claim), _SINGLE_UNITS):
            rows = {self._snapshot.bookings[pod].row for pod in unit.pods}
            if not claim.broken and all(fits[row] != Reason.FITS for row in rows):
                continue
            there = None if claim.broken else np.array(sorted(rows), np.intp)
            mark = self._snapshot.mark()
            self._snapshot.release_all(unit.pods)
            bookings = self._placer.place(claim.gang, there)
            if bookings is not None and claim.admits_instead(unit, bookings):
                self._snapshot.end(mark)
                return Room(tuple(bookings), (unit,))
            self._snapshot.undo(mark)
        return None

    def _in_cheapest_domain(self, claim: Claim) -> Room | None:
        useful = self._useful(claim.gang)
        domains = list(islice(self._domains(claim), _DOMAINS))
        for search in (self._within, self._by_sets):
            found: list[Room] = []
            for rows in domains:
                mark = self._snapshot.mark()
                room = search(claim.renewed(), rows, useful)
                self._snapshot.undo(mark)
                if room is not None:
                    found.append(room)
            if found:
                return min(found, key=lambda room: _price(room.units))
        return None

    def _domains(self, claim: Claim) -> Iterator[Rows]:
        """Domains with somebody who might have to make way, or all where others elsewhere may be
        in the way, too."""
        anywhere = bool(claim.broken) or self._minds_others(claim.gang)
        domains = all_domains(self._snapshot, self._rooms, claim.gang)
        for rows in islice(domains, _LOOKED_AT):
            if anywhere or self.victims.are_on(claim, rows):
                yield rows

    def _useful(self, gang: Gang) -> Flags | None:
        """Rows on which the gang could have pods; None if others elsewhere may be in the way."""
        if self._minds_others(gang):
            return None
        useful = np.zeros(self._snapshot.size, np.bool_)
        for shape in {each.shape for group in gang.groups for each in group.members}:
            useful |= self._rooms.reasons(shape) == Reason.FITS
        return useful

    def _minds_others(self, gang: Gang) -> bool:
        """Whether pods on other nodes may keep a pod of the gang from its place: by rules about
        pods, or by having devices that several nodes can reach."""
        neighbours = self._snapshot.neighbours
        return any(
            member.shape.peers is not None
            or bool(member.shape.claims)
            or (neighbours.repels and bool(neighbours.repelling(member)))
            for group in gang.groups
            for member in group.members
        )

    # Units as they come.

    def _within(self, claim: Claim, rows: Rows, useful: Flags | None) -> Room | None:
        """Lets units go that keep the gang above a limit, then units in these rows, more and more
        of them, until the gang fits there."""
        taken = self._released(self.victims.relieving(claim))
        bookings = self._placer.place(claim.gang, rows) if taken and not claim.broken else None
        units = self.victims.of(claim, self._among(rows), useful)
        step = 1
        while bookings is None:
            more = self._released(islice(units, step))
            if claim.broken or not more:
                return None
            taken += more
            bookings = self._placer.place(claim.gang, rows)
            step = 2 * step
        if not claim.admits(bookings) or not claim.is_lawful([unit for unit, _ in taken]):
            return None
        return self._without_needless(claim, taken, self._trial(claim, bookings, useful))

    def _without_needless(self, claim: Claim, taken: Sequence[Taken], trial: Trial) -> Room:
        """Lets units stay after all that are not needed, the dearest first; a whole gang or
        nothing. A unit may be needed only for the right to another that then stays, too: so it is
        looked again."""
        standing = self._cluster.standing
        queues = Counter(standing[unit.gang].gang.queue for unit, _ in taken)
        left = sorted(taken, key=lambda one: one[0].cost, reverse=True)
        again = True
        while again:
            again, held = False, False
            kept: list[Taken] = []
            whole: set[str] = set()
            for unit, had in left:
                if unit.gang in whole:
                    continue
                queue = standing[unit.gang].gang.queue
                others = [each for each, count in queues.items() if count > (each == queue)]
                if not claim.may_return(unit, [booking.pod for booking in had], others):
                    held = True
                elif trial.take_back(had, claim.admits):
                    queues[queue] -= 1
                    again = True
                    continue
                else:
                    claim.take(unit)
                kept.append((unit, had))
                if unit.whole:
                    whole.add(unit.gang)
            left, again = kept, again and held
        return Room(tuple(trial.bookings), tuple(unit for unit, _ in left))

    # Sets of units.

    def _by_sets(self, claim: Claim, rows: Rows, useful: Flags | None) -> Room | None:
        """Room by any units that might be taken together, if there is room without all of them."""
        possible = self.victims.possible(claim, self._among(rows), useful)
        units = list(islice(possible, _MANY_UNITS + 1))
        if claim.is_helped_anywhere:
            known = {unit.pods for unit in units}
            elsewhere = islice(self.victims.possible(claim, None, useful), _MANY_UNITS)
            units += [
                unit for unit in elsewhere if unit.pods not in known and claim.helped_by(unit)
            ]
        if not units or len(units) > _MANY_UNITS:
            return None
        if self._placed_without(units, claim.gang, rows) is None:
            return None
        if len(units) <= _FEW_UNITS:
            return self._cheapest_set(claim, units, rows)
        return self._lawful_rest(claim, units, rows, useful)

    def _cheapest_set(self, claim: Claim, units: Sequence[Unit], rows: Rows) -> Room | None:
        sets = chain.from_iterable(combinations(units, count) for count in _counts(units))
        lawful = [each for each in sets if not _twice(each) and claim.is_lawful(each)]
        for some in islice(sorted(lawful, key=_price), _TRIALS):
            bookings = self._placed_without(some, claim.gang, rows)
            if bookings is not None and claim.is_lawful(some, bookings):
                return Room(tuple(bookings), some)
        return None

    def _lawful_rest(
        self, claim: Claim, units: Sequence[Unit], rows: Rows, useful: Flags | None
    ) -> Room | None:
        """Takes all units and gives back what the gang can do without, the dearest first, until it
        has a right to what is left."""
        left = self._released(units)
        bookings = self._placer.place(claim.gang, rows)
        assert bookings is not None
        trial = self._trial(claim, bookings, useful)
        for one in sorted(left, key=lambda one: one[0].cost, reverse=True):
            if trial.take_back(one[1]):
                left.remove(one)
                if claim.is_lawful([unit for unit, _ in left], trial.bookings):
                    for unit, _ in left:
                        claim.take(unit)
                    return self._without_needless(claim, left, trial)
        return None

    def _among(self, rows: Rows) -> Rows | None:
        """Rows on which units are looked for; None if that is all."""
        return None if len(rows) == int(self._snapshot.alive.sum()) else rows

    def _released(self, units: Iterable[Unit]) -> list[Taken]:
        """Lets units go."""
        bookings = self._snapshot.bookings
        return [
            (unit, self._snapshot.release_all([pod for pod in unit.pods if pod in bookings]))
            for unit in units
        ]

    def _placed_without(
        self, units: Iterable[Unit], gang: Gang, rows: Rows | None
    ) -> list[Booking] | None:
        """Where a gang would be if units were gone; nothing is changed."""
        mark = self._snapshot.mark()
        self._released(units)
        bookings = self._placer.place(gang, rows)
        self._snapshot.undo(mark)
        return bookings

    def _trial(self, claim: Claim, bookings: Sequence[Booking], useful: Flags | None) -> Trial:
        return Trial(self._snapshot, self._placer, claim.gang, bookings, useful)


def _counts(units: Sequence[Unit]) -> range:
    return range(1, len(units) + 1)


def _twice(units: Collection[Unit]) -> bool:
    """Whether a pod is in several units."""
    whole = {unit.gang for unit in units if unit.whole}
    return any(not unit.whole and unit.gang in whole for unit in units)


def _price(units: Sequence[Unit]) -> _Price:
    costs: list[Cost] = [unit.cost for unit in units]
    return (
        max((cost[0] for cost in costs), default=0),
        sum(cost[2] for cost in costs),
        sum(len(unit.pods) for unit in units),
        tuple(sorted(unit.gang for unit in units)),
    )
