"""Pods of a gang that are seated one after the other, because each changes where the next may
stand; and segments of them, each in one domain. A domain that is tried is a step of the budget."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kilonova.scheduler.core.gangs import Group, Member, Segments
from kilonova.scheduler.core.giving import bookings_for
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.nearness import objections
from kilonova.scheduler.core.rooms import NOWHERE, Rooms
from kilonova.scheduler.core.search_budget import SearchBudget
from kilonova.scheduler.core.snapshot import Snapshot


def best_row(snapshot: Snapshot, rooms: Rooms, member: Member, rows: Rows | None = None) -> int:
    """Where one more pod stands best, by its own wishes and by what others let it;
    `NOWHERE` if there is no such place. With `rows`, one of these."""
    against = objections(snapshot, member)
    if rows is None and against is None:
        return rooms.best(member.shape)
    keys = rooms.keys(member.shape)
    if against is not None:
        keys = np.where(against == 0, keys, NOWHERE)
    if rows is None:
        rows = np.arange(len(keys))
    if not len(rows):
        return NOWHERE
    row = int(rows[keys[rows].argmax()])
    return row if keys[row] >= 0 else NOWHERE


class Seating:
    """Seats pods of one gang. `reachable` are the rows of some from which a pod reaches what it
    shares with others."""

    def __init__(
        self,
        snapshot: Snapshot,
        rooms: Rooms,
        gang: str,
        reachable: Callable[[Member, Rows], Rows],
        budget: SearchBudget,
    ) -> None:
        self._snapshot = snapshot
        self._rooms = rooms
        self._gang = gang
        self._reachable = reachable
        self._budget = budget

    def seat_whole(self, group: Group, members: list[Member], rows: Rows) -> bool:
        """Books one pod, or one segment, after the other: all of them, or it is no use."""
        if group.segments is None:
            return self._all(members, rows)
        return self._fill_segments(_segments(group.segments, members), group.segments.level, rows)

    def _fill_segments(self, segments: Sequence[list[Member]], level: str, rows: Rows) -> bool:
        """Each in the first domain where the others find their places, too: where one finds none,
        the one before it goes on to its next."""
        snapshot = self._snapshot
        untried = [self._domains_for(segments[0], level, rows)]
        marks: list[int] = []
        """Where in the journal each segment begins that has a place."""
        while len(marks) < len(segments):
            domain = next(untried[-1], None)
            if domain is None or not self._budget.spend():
                untried.pop()
                if not marks:
                    return False
                snapshot.undo(marks.pop())
                continue
            mark = snapshot.mark()
            if not self._all(segments[len(marks)], domain):
                snapshot.undo(mark)
                continue
            marks.append(mark)
            if len(marks) < len(segments):
                untried.append(self._domains_for(segments[len(marks)], level, rows))
        snapshot.keep(marks[0])
        return True

    def seat_some(self, group: Group, members: list[Member], rows: Rows) -> int:
        """As many pods, or segments, as find a place one after the other; says how many pods."""
        if group.segments is None:
            return self.seat(members, rows)
        seated, level = 0, group.segments.level
        for segment in _segments(group.segments, members):
            domains = self._domains_for(segment, level, rows)
            if not any(self._tried(segment, domain) for domain in domains):
                break
            seated += len(segment)
        return seated

    def _tried(self, segment: list[Member], domain: Rows) -> bool:
        """Books a segment in a domain, or nothing."""
        if not self._budget.spend():
            return False
        mark = self._snapshot.mark()
        if self._all(segment, domain):
            self._snapshot.keep(mark)
            return True
        self._snapshot.undo(mark)
        return False

    def _domains_for(self, segment: list[Member], level: str, rows: Rows) -> Iterator[Rows]:
        """Domains that may hold a segment, those with the most room first."""
        domains = self._snapshot.labels.domains(level, rows)
        room = np.bincount(domains + 1, weights=self._rooms.room(segment[0].shape)[rows])[1:]
        names = self._snapshot.labels.column(level).values
        alike = sum(member.shape == segment[0].shape for member in segment)
        able = np.flatnonzero(room >= alike).tolist()
        for domain in sorted(able, key=lambda one: (-room[one], names[one])):
            yield rows[domains == domain]

    def _all(self, members: list[Member], rows: Rows) -> bool:
        return self.seat(members, rows) == len(members)

    def seat(self, members: list[Member], rows: Rows) -> int:
        """Each where it stands best, as long as there is a place; says how many have one."""
        for seated, member in enumerate(members):
            row = best_row(self._snapshot, self._rooms, member, self._reachable(member, rows))
            if row == NOWHERE:
                return seated
            self._snapshot.book_all(bookings_for(self._snapshot, row, [member], self._gang))
        return len(members)


def _segments(segments: Segments, members: list[Member]) -> list[list[Member]]:
    size = segments.size
    return [members[first : first + size] for first in range(0, len(members), size)]
