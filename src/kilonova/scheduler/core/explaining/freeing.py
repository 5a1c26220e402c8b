"""Room for a gang by pods of others that go."""

import heapq
from collections.abc import Iterator

import numpy as np

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.explaining.changes import Free
from kilonova.scheduler.core.explaining.nearest import Place, place_of
from kilonova.scheduler.core.explaining.tallies import short_of
from kilonova.scheduler.core.explaining.trial import Trial
from kilonova.scheduler.core.filters import Reason
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.labels import NAME, Rows
from kilonova.scheduler.core.parts import tree
from kilonova.scheduler.core.rooms import Scores
from kilonova.scheduler.core.snapshot import GPU, Booking

_MOST_FREED = 128


def freed(trial: Trial, gang: Gang) -> Iterator[tuple[Free, int]]:
    """Pods of other gangs that go where the gang lacks the least."""
    place = place_of(trial, gang)
    if place is None or place.lacking > _MOST_FREED:
        return
    mark = trial.snapshot.mark()
    try:
        gone = _released(trial, gang, place)
    finally:
        trial.snapshot.undo(mark)
    if gone:
        yield _free(trial, gang, place, gone), len(gone)


def _released(trial: Trial, gang: Gang, place: Place) -> list[Booking] | None:
    gone: list[Booking] = []
    for demand in place.demands:
        makers = _RoomMaker(trial, demand.shape, place.rows)
        for _ in range(demand.lacking):
            more = makers.make()
            if more is None:
                return None
            gone += more
    # Each group has room by itself now: a little more, and all have it together.
    maker = _RoomMaker(trial, place.worst.shape, place.rows)
    root = tree(gang)
    while not trial.placer.could_fit(root) or not trial.fits(gang):
        more = maker.make()
        if more is None or len(gone) > _MOST_FREED or trial.spent:
            return None
        gone += more
    return gone


class _RoomMaker:
    """Makes room for one more pod of a shape at a time, on the row where least has to go."""

    def __init__(self, trial: Trial, shape: Shape, rows: Rows) -> None:
        self._trial = trial
        self._shape = shape
        fits = rows[trial.rooms.reasons(shape)[rows] == Reason.FITS]
        missing = self._missing(fits)
        ranks = trial.snapshot.ranks[fits]
        self._heap = list(zip(missing.tolist(), ranks.tolist(), fits.tolist(), strict=True))
        heapq.heapify(self._heap)

    def make(self) -> list[Booking] | None:
        """What was released; None, and nothing is, if there is no more to release."""
        while self._heap:
            _, rank, row = heapq.heappop(self._heap)
            gone = self._make_on(row)
            if gone is not None:
                again = float(self._missing(np.array([row], np.intp))[0])
                heapq.heappush(self._heap, (again, rank, row))
                return gone
        return None

    def _make_on(self, row: int) -> list[Booking] | None:
        snapshot, rooms, shape = self._trial.snapshot, self._trial.rooms, self._shape
        before = int(rooms.room(shape)[row])
        mark = snapshot.mark()
        gone: list[Booking] = []
        while int(rooms.room(shape)[row]) <= before:
            others = [each for each in snapshot.pods_on[row].values() if each.gang]
            if not others:
                snapshot.undo(mark)
                return None
            gone += snapshot.release_all([self._next(row, others)])
        snapshot.keep(mark)
        return gone

    def _next(self, row: int, others: list[Booking]) -> str:
        """The smallest pod whose room would do, else the largest."""
        names, which = short_of(self._trial, self._shape, np.array([row], np.intp))
        resource = names[int(which[0])]
        snapshot = self._trial.snapshot
        need = dict(self._shape.requests).get(resource, 1)
        need -= int(snapshot.free[snapshot.column(resource), row]) % max(need, 1)
        sized = sorted((_has(each, resource), each.pod) for each in others)
        return next((pod for size, pod in sized if size >= need), sized[-1][1])

    def _missing(self, rows: Rows) -> Scores:
        """How much of a pod is missing for one more on each row."""
        snapshot, shape = self._trial.snapshot, self._shape
        room = self._trial.rooms.room(shape)[rows]
        missing = np.zeros(len(rows))
        for name, amount in shape.requests:
            if amount > 0:
                free = snapshot.free[snapshot.column(name), rows]
                missing = np.maximum(missing, ((room + 1) * amount - free) / amount)
        if shape.gpu is not None and not shape.gpu.whole:
            best = snapshot.gpu_free[rows].max(axis=1, initial=0)
            missing = np.maximum(missing, 1 - best / max(1, shape.gpu.milli))
        return missing


def _has(booking: Booking, resource: str) -> int:
    shape = booking.shape
    if resource == GPU and shape.gpu is not None:
        return shape.gpu.count
    return dict(shape.requests).get(resource, 0)


def _free(trial: Trial, gang: Gang, place: Place, gone: list[Booking]) -> Free:
    names, which = short_of(trial, place.worst.shape, place.rows)
    resource = names[int(np.bincount(which, minlength=len(names)).argmax())]
    if not place.lacking and trial.placer.could_fit(tree(gang)):
        resource = ""
    rows = {booking.row for booking in gone}
    level, domain = place.level, place.domain
    if len(rows) == 1:
        level, domain = NAME, trial.snapshot.names[gone[0].row]
    return Free(
        resource,
        sum(_has(booking, resource) for booking in gone),
        level,
        domain,
        tuple(sorted({booking.gang for booking in gone})),
        tuple(sorted(booking.pod for booking in gone)),
    )
