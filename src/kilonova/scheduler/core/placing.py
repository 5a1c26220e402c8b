"""A place for a gang, or none: see `attempts`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from kilonova.scheduler.core.attempts import Attempt
from kilonova.scheduler.core.backtracking import MOST_PODS
from kilonova.scheduler.core.domains import could_hold
from kilonova.scheduler.core.gangs import Gang, Member
from kilonova.scheduler.core.giving import bookings_for
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.parts import Part
from kilonova.scheduler.core.rooms import NOWHERE, BothRooms, Rooms
from kilonova.scheduler.core.search_budget import SearchBudget
from kilonova.scheduler.core.seating import best_row
from kilonova.scheduler.core.snapshot import Booking, Snapshot
from kilonova.scheduler.core.whole import wholes, without_coming

_SEARCH_STEPS, _STEPS_PER_POD = 4_000, 32
"""Of a complete search for one gang, and for all that is tried to make room for it; and how many
more for each pod: each takes a choice of its own, and a look at what the others took."""


def budget_for(gang: Gang | None) -> SearchBudget:
    """What all searches for one gang may cost together."""
    pods = min(gang.needed, MOST_PODS) if gang is not None else 0
    return SearchBudget(_SEARCH_STEPS + _STEPS_PER_POD * pods)


class Placer:
    """Books gangs in a snapshot. `levels` are the topology, broadest first: pods of neighbouring
    rank stand near each other in it. A `budget` is for all that is placed until there is another;
    without one, each gang has its own."""

    def __init__(
        self,
        snapshot: Snapshot,
        rooms: Rooms,
        levels: Sequence[str] = (),
        budget: SearchBudget | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._rooms = rooms
        self._levels = tuple(levels)
        self.budget = budget

    def within(self, other: Rooms) -> "Placer":
        """Places only where there is room in another state of the cluster, too."""
        return Placer(self._snapshot, BothRooms(self._rooms, other), self._levels, self.budget)

    def with_budget(self, budget: SearchBudget) -> "Placer":
        """Places as this one does, and searches no further than a budget goes."""
        return Placer(self._snapshot, self._rooms, self._levels, budget)

    def place(self, gang: Gang, rows: Rows | None = None) -> list[Booking] | None:
        """Books a gang and says how; None if it has no place, and nothing is booked then.

        With `rows`, only on these.
        """
        if rows is None and (member := lone(gang)) is not None:
            row = best_row(self._snapshot, self._rooms, member)
            return None if row == NOWHERE else self._book(row, member, gang)
        if rows is None:
            rows = np.flatnonzero(self._snapshot.alive[: self._snapshot.size])
        if self.budget is None:
            self._snapshot.claims.renew_budget()
        budget = self.budget or budget_for(gang)
        for led in (*wholes(gang), gang) if gang.needed else one_more(gang):
            attempt = Attempt(self._snapshot, self._rooms, self._levels, led, budget)
            placed = attempt.place(rows, searches=led is gang)
            if placed is not None:
                return placed if led is gang else without_coming(self._snapshot, placed)
        return None

    def could_fit(self, root: Part) -> bool:
        """Whether it is worth trying to place a gang, by its tree: costs no more for many pods."""
        rows = np.flatnonzero(self._snapshot.alive[: self._snapshot.size])
        return could_hold(self._snapshot, self._rooms, root, rows)

    def fits(self, gang: Gang) -> bool:
        """Whether a gang has a place; nothing is booked."""
        mark = self._snapshot.mark()
        placed = self.place(gang) is not None
        self._snapshot.undo(mark)
        return placed

    def _book(self, row: int, member: Member, gang: Gang) -> list[Booking]:
        bookings = bookings_for(self._snapshot, row, [member], gang.name)
        self._snapshot.book_all(bookings)
        return bookings


def one_more(gang: Gang) -> Iterator[Gang]:
    """A gang that has its minimum, for each group as if it needed one more: that one finds its
    place by all that the gang wishes for, and the others follow it."""
    for index, group in enumerate(gang.groups):
        if group.members:
            lead = replace(group, minimum=len(group.placed) + 1)
            groups = (*gang.groups[:index], lead, *gang.groups[index + 1 :])
            yield replace(gang, groups=groups)


def lone(gang: Gang) -> Member | None:
    """The member of a gang that is one pod and has no wish about domains."""
    if len(gang.groups) != 1 or gang.pack or gang.bundles or gang.apart is not None or gang.within:
        return None
    group = gang.groups[0]
    if len(group.members) != 1 or group.needed != 1 or group.pack or group.segments is not None:
        return None
    return group.members[0]
