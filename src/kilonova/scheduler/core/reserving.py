"""Room kept for a gang that waits for others to end, while smaller ones run past it.

For a gang that waited long without a place, the earliest moment is worked out at which it would
fit if what runs ends as expected. That moment, with the gang in its place, is the **shadow** of the
cluster. Who ends before it may take any room that is free now; who does not must leave the shadow
as it is: it needs room in both. So the gang is never delayed by those who pass it.

How long a gang runs is what its owner said, or what was predicted; where nobody knows, it is taken
to go on for as long as it has run already.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.cluster import Cluster, Standing
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.giving import are_free, bookings_for
from kilonova.scheduler.core.nearness import clashes
from kilonova.scheduler.core.parts import tree
from kilonova.scheduler.core.placing import Placer
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import Booking, Snapshot

Times = NDArray[np.float64]

_AT_LEAST = 600.0
"""Seconds that what runs for an unknown time goes on at least."""
_FEW_ENDS = 64


def expected_end(standing: Standing, now: float) -> float:
    """When a gang will probably leave; one that overruns is taken to go on for a while."""
    ran = now - standing.since
    if standing.gang.duration is not None and standing.gang.duration > ran:
        return standing.since + standing.gang.duration
    return now + max(ran, _AT_LEAST)


def expected_ends(since: Times, durations: Times, now: float) -> Times:
    """`expected_end` of many gangs; a duration that nobody said is no number."""
    ran = now - since
    return np.where(durations > ran, since + durations, now + np.maximum(ran, _AT_LEAST))


@dataclass(frozen=True, slots=True)
class Reservation:
    """When a gang will have its place, and on which nodes."""

    gang: Gang
    at: float
    nodes: tuple[str, ...]


class Shadow:
    """The cluster at the moment for which a gang has a reservation."""

    def __init__(
        self, reservation: Reservation, reserved: Iterable[str], snapshot: Snapshot, rooms: Rooms
    ) -> None:
        self.reservation = reservation
        self._reserved = frozenset(reserved)
        self.rooms = rooms
        self._snapshot = snapshot

    def ends_before(self, gang: Gang, now: float) -> bool:
        """Whether a gang that starts now is gone by then."""
        return gang.duration is not None and now + gang.duration <= self.reservation.at

    def take(self, bookings: Sequence[Booking], gone: Iterable[str] = ()) -> bool:
        """Counts what is booked now, when others are gone, and will still be there; False, and
        nothing is counted, if the reservation would suffer."""
        mark = self._snapshot.mark()
        self._snapshot.release_all([pod for pod in gone if pod in self._snapshot.bookings])
        if all(self._takes(booking) for booking in bookings):
            self._snapshot.keep(mark)
            return True
        self._snapshot.undo(mark)
        return False

    def _takes(self, booking: Booking) -> bool:
        """Counts a pod with the very devices that it has now; where those were meant for the
        reservation, that is given others of the node."""
        row = booking.row
        if self.rooms.room(booking.shape)[row] < 1:
            return False
        if clashes(self._snapshot, booking.member, row):
            return False
        moved: list[Booking] = []
        if not are_free(self._snapshot, row, booking.devices):
            here = [pod for pod in self._snapshot.pods_on[row] if pod in self._reserved]
            moved = self._snapshot.release_all(here)
            if not are_free(self._snapshot, row, booking.devices):
                return False
        one = bookings_for(self._snapshot, row, [booking.member], booking.gang)[0]
        self._snapshot.book(replace(one, devices=booking.devices))
        for each in moved:
            if self.rooms.room(each.shape)[row] < 1:
                return False
            self._snapshot.book_all(bookings_for(self._snapshot, row, [each.member], each.gang))
        return True


def reserve(
    cluster: Cluster, rooms: Rooms, placer: Placer, gang: Gang, now: float
) -> Shadow | None:
    """The shadow in which a gang has its place as early as can be; None if it would have none even
    if all others were gone."""
    snapshot, least = cluster.snapshot, gang.at_least()
    fit = earliest(cluster, placer, least, now)
    if fit is None:
        return None
    mark = snapshot.mark()
    try:
        for name in fit.ended:
            snapshot.release_all(list(cluster.standing[name].pods))
        bookings = placer.place(least)
        if bookings is None:  # the budget of the search went on finding out when
            return None
        pods = [booking.pod for booking in bookings]
        nodes = tuple(sorted({snapshot.names[booking.row] for booking in bookings}))
        copied = snapshot.copy()
        return Shadow(Reservation(gang, fit.at, nodes), pods, copied, rooms.of(copied))
    finally:
        snapshot.undo(mark)


@dataclass(frozen=True, slots=True)
class Fit:
    """When a gang would fit, and which gangs have ended then, in order."""

    at: float
    ended: tuple[str, ...]


def earliest(
    cluster: Cluster, placer: Placer, gang: Gang, now: float, most: int | None = None
) -> Fit | None:
    """The first moment at which a gang fits if others end as expected; None if there is none, or
    if more than `most` pods would have to end before. A gang that wants more pods than it has does
    not wait for its own end.

    It costs what has to end, not all that runs: first a bound is looked for, then the place.
    """
    root = tree(gang)
    search = _Search(cluster, gang.name, now, most)
    bound = search.first(0, lambda: placer.could_fit(root))
    found = None if bound is None else search.first(bound, lambda: placer.fits(gang))
    if found is None:
        return None
    ended = search.ends.first(found)
    return Fit(ended[-1][0] if ended else now, tuple(name for _, name in ended))


class _Search:
    """Looks ever further ahead, then back between what will do and what will not."""

    def __init__(self, cluster: Cluster, gang: str, now: float, most: int | None) -> None:
        self._cluster = cluster
        self._most = most
        self.ends = _Ends(cluster, gang, now)

    def first(self, least: int, holds: Callable[[], bool]) -> int | None:
        """How many gangs, at least so many, must have ended for something to hold."""
        snapshot = self._cluster.snapshot
        running = len(snapshot.bookings)
        mark = snapshot.mark()
        self._end(0, least)
        gone, found, step = least, least if holds() else None, 1
        while found is None or found - gone > 1:
            ended = running - len(snapshot.bookings)
            if found is None and (
                gone == len(self.ends) or (self._most is not None and ended > self._most)
            ):
                break
            end = min(gone + step, len(self.ends)) if found is None else (gone + found) // 2
            trial = snapshot.mark()
            self._end(gone, end)
            if holds():
                snapshot.undo(trial)
                found = end
            else:
                snapshot.keep(trial)
                gone, step = end, 2 * step
        snapshot.undo(mark)
        return found

    def _end(self, first: int, last: int) -> None:
        standing = self._cluster.standing
        ended = self.ends.first(last)[first:]
        pods = [pod for _, name in ended for pod in standing[name].pods]
        self._cluster.snapshot.release_all(pods)


class _Ends:
    """When gangs will probably end, in order. There may be a hundred thousand of which the first
    few matter: only these are put in order."""

    def __init__(self, cluster: Cluster, gang: str, now: float) -> None:
        self._names = [name for name in cluster.standing if name != gang]
        standing = [one for name, one in cluster.standing.items() if name != gang]
        since = np.array([one.since for one in standing])
        said = [one.gang.duration for one in standing]
        duration = np.array([math.nan if each is None else each for each in said])
        self._at = expected_ends(since, duration, now)
        self._first: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._names)

    def first(self, count: int) -> list[tuple[float, str]]:
        """The first so many, each with its name."""
        if count > len(self._first):
            most = min(len(self), max(_FEW_ENDS, 2 * count))
            latest = float(np.partition(self._at, most - 1)[most - 1])
            sooner = np.flatnonzero(self._at < latest)
            then = np.flatnonzero(self._at == latest)
            names = heapq.nsmallest(most - len(sooner), [self._names[each] for each in then])
            early = sorted((float(self._at[each]), self._names[each]) for each in sooner)
            self._first = [*early, *((latest, name) for name in names)]
        return self._first[:count]
