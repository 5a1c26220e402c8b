"""Capacity for a gang by pods of other gangs that go: as few pods as can be found.

An upper bound comes from making room greedily, in the domains where the gang lacks the least. Then
smaller sets are tried, the most promising pods first. In small clusters that is exhaustive; in
large ones it ends with a budget, and the best set found so far is proposed.
"""

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.explaining.changes import Free
from kilonova.scheduler.core.explaining.nearest import Place, places_of
from kilonova.scheduler.core.explaining.tallies import short_of
from kilonova.scheduler.core.explaining.trial import Trial
from kilonova.scheduler.core.filters import Reason
from kilonova.scheduler.core.gangs import Gang, Member
from kilonova.scheduler.core.labels import ABSENT, NAME, Rows
from kilonova.scheduler.core.parts import tree
from kilonova.scheduler.core.rooms import Scores
from kilonova.scheduler.core.snapshot import GPU, Booking, Snapshot

_MOST_FREED = 128
_MOST_PLACES = 3
"""Domains in which room is made greedily."""
_MOST_THINNED = 16
"""Of a set of so many pods, each is tried whether it can stay."""
_MOST_CANDIDATES = 128
"""Pods of which sets are made."""
_MOST_SETS = 2048
_MOST_LOOKS = 1 << 17
"""Sets that are tried, and sets times nodes: to try one costs by the number of nodes."""
_MOST_TRIALS = 64
"""Attempts to place the gang, of those that a trial has for all kinds of changes."""


def freed(trial: Trial, gang: Gang) -> Iterator[tuple[Free, int]]:
    """The fewest pods of other gangs that were found to make room when they go."""
    places = [each for each in places_of(trial, gang, _MOST_PLACES) if each.demands]
    places = [each for each in places if each.lacking <= _MOST_FREED]
    if not places:
        return
    gone = _Release(trial, gang, places).fewest()
    if gone:
        yield _free(trial, gang, places, gone), len(gone)


class _Release:
    """The search for pods to release, for one gang."""

    def __init__(self, trial: Trial, gang: Gang, places: Sequence[Place]) -> None:
        self._trial = trial
        self._gang = gang
        self._places = places
        self._root = tree(gang)
        self._until = trial.trials + _MOST_TRIALS

    def fewest(self) -> list[Booking] | None:
        best: list[Booking] | None = None
        for place in self._places:
            if self._spent:
                break
            found = self._thinned(self._greedily(place, _size(best)))
            best = found if _size(found) < _size(best) else best
        candidates = self._candidates()
        found = self._thinned(self._largest_first(candidates, _size(best)))
        best = found if _size(found) < _size(best) else best
        return self._smaller(candidates, _size(best)) or best

    @property
    def _spent(self) -> bool:
        return self._trial.spent or self._trial.trials >= self._until

    def _fits(self) -> bool:
        # What could not fit costs no attempt.
        return self._trial.placer.could_fit(self._root) and self._trial.fits(self._gang)

    def _fits_without(self, gone: Sequence[Booking]) -> bool:
        with self._trial.without([booking.pod for booking in gone]):
            return self._fits()

    def _could_fit_without(self, gone: Sequence[Booking]) -> bool:
        with self._trial.without([booking.pod for booking in gone]):
            return self._trial.placer.could_fit(self._root)

    def _greedily(self, place: Place, fewer_than: int) -> list[Booking] | None:
        """Room for one pod after the other that has none in a domain, as long as it takes."""
        mark = self._trial.snapshot.mark()
        try:
            gone = self._made(place)
        finally:
            self._trial.snapshot.undo(mark)
        return None if gone is None else self._shortest(gone, min(len(gone), fewer_than - 1))

    def _made(self, place: Place) -> list[Booking] | None:
        """Pods that were released until the gang fits, and perhaps some more."""
        gone: list[Booking] = []
        for demand in place.demands:
            maker = _RoomMaker(self._trial, self._gang.name, demand.shape, place.rows)
            for _ in range(demand.lacking):
                gone += maker.make()
        # Each group has room by itself now: a little more, and all have it together.
        maker = _RoomMaker(self._trial, self._gang.name, place.worst.shape, place.rows)
        step = 1
        while not self._fits():
            more = [booking for _ in range(step) for booking in maker.make()]
            gone += more
            step *= 2
            if not more or len(gone) > _MOST_FREED or self._spent:
                return None
        return gone

    def _largest_first(
        self, candidates: Sequence[Booking], fewer_than: int
    ) -> list[Booking] | None:
        """The first candidates that make room together."""
        count, most = 1, min(fewer_than - 1, len(candidates))
        while count < most and not self._could_fit_without(candidates[:count]):
            count *= 2
        return self._shortest(candidates, min(2 * count, most))

    def _shortest(self, pods: Sequence[Booking], most: int) -> list[Booking] | None:
        """The fewest of the first pods that make room: by the bound, which costs little, and from
        there by trying."""
        bound = _first(lambda count: self._could_fit_without(pods[:count]), 1, most)
        if bound is None or self._spent:
            return None
        if self._fits_without(pods[:bound]):
            return list(pods[:bound])
        found = _first(
            lambda count: not self._spent and self._fits_without(pods[:count]), bound + 1, most
        )
        return None if found is None else list(pods[:found])

    def _thinned(self, gone: list[Booking] | None) -> list[Booking] | None:
        """Those of some pods that have to go."""
        if gone is None or len(gone) > _MOST_THINNED:
            return gone
        for booking in list(gone):
            fewer = [each for each in gone if each is not booking]
            if fewer and not self._spent and self._fits_without(fewer):
                gone = fewer
        return gone

    def _smaller(self, candidates: Sequence[Booking], fewer_than: int) -> list[Booking] | None:
        """A set of fewer pods, the smallest first."""
        left = min(_MOST_SETS, _MOST_LOOKS // max(1, self._trial.snapshot.size))
        for size in range(1, min(fewer_than, len(candidates) + 1)):
            for chosen in _sets(candidates, size):
                if left <= 0 or self._spent:
                    return None
                left -= 1
                if self._fits_without(chosen):
                    return chosen
        return None

    def _candidates(self) -> list[Booking]:
        """Pods of others on nodes that may take pods of the gang, those first that leave room for
        the most of them."""
        trial, name = self._trial, self._gang.name
        found: dict[str, tuple[int, Booking]] = {}
        for shape in {shape: None for leaf in self._root.leaves() for shape, _ in leaf.wanted}:
            rows = trial.rows()
            rows = rows[trial.rooms.reasons(shape)[rows] == Reason.FITS]
            seen = 0
            for row in rows[np.argsort(_missing(trial, shape, rows), kind="stable")].tolist():
                for booking in _others(trial, name, row):
                    gain = max(_gain(trial, shape, booking), found.get(booking.pod, (0,))[0])
                    found[booking.pod] = gain, booking
                    seen += 1
                if seen >= _MOST_CANDIDATES:
                    break
        order = sorted(found, key=lambda pod: (-found[pod][0], pod))
        return [found[pod][1] for pod in order[:_MOST_CANDIDATES]]


class _RoomMaker:
    """Makes room for one more pod of a shape at a time, on the row where least has to go."""

    def __init__(self, trial: Trial, gang: str, shape: Shape, rows: Rows) -> None:
        self._trial = trial
        self._gang = gang
        self._shape = shape
        fits = rows[trial.rooms.reasons(shape)[rows] == Reason.FITS]
        missing = _missing(trial, shape, fits)
        ranks = trial.snapshot.ranks[fits]
        self._heap = list(zip(missing.tolist(), ranks.tolist(), fits.tolist(), strict=True))
        heapq.heapify(self._heap)

    def make(self) -> list[Booking]:
        """What was released; nothing, if there is no more to release."""
        while self._heap:
            _, rank, row = heapq.heappop(self._heap)
            gone = self._make_on(row)
            if gone is not None:
                again = float(_missing(self._trial, self._shape, np.array([row], np.intp))[0])
                heapq.heappush(self._heap, (again, rank, row))
                return gone
        return []

    def _make_on(self, row: int) -> list[Booking] | None:
        snapshot, rooms, shape = self._trial.snapshot, self._trial.rooms, self._shape
        before = int(rooms.room(shape)[row])
        mark = snapshot.mark()
        gone: list[Booking] = []
        while int(rooms.room(shape)[row]) <= before:
            others = _others(self._trial, self._gang, row)
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


def _others(trial: Trial, gang: str, row: int) -> list[Booking]:
    """Pods of other gangs on a node; pods of the gang itself stay, and so do those of no gang."""
    return [
        each for each in trial.snapshot.pods_on[row].values() if each.gang and each.gang != gang
    ]


def _missing(trial: Trial, shape: Shape, rows: Rows) -> Scores:
    """How much of a pod is missing for one more on each row."""
    snapshot = trial.snapshot
    room = trial.rooms.room(shape)[rows]
    missing = np.zeros(len(rows))
    for name, amount in shape.requests:
        if amount > 0:
            free = snapshot.free[snapshot.column(name), rows]
            missing = np.maximum(missing, ((room + 1) * amount - free) / amount)
    if shape.gpu is not None and not shape.gpu.whole:
        best = snapshot.gpu_free[rows].max(axis=1, initial=0)
        missing = np.maximum(missing, 1 - best / max(1, shape.gpu.milli))
    return missing


def _gain(trial: Trial, shape: Shape, booking: Booking) -> int:
    """For about how many pods of a shape there is more room when a pod goes: by what is counted,
    whichever devices it has."""
    snapshot, has = trial.snapshot, dict(booking.shape.requests)
    room = [
        (int(snapshot.free[snapshot.column(name), booking.row]) + has.get(name, 0)) // amount
        for name, amount in shape.requests
        if amount > 0
    ]
    gain = min(room, default=0) - int(trial.rooms.room(shape)[booking.row])
    if shape.gpu is None or shape.gpu.whole or booking.shape.gpu is None:
        return gain
    return min(gain, booking.shape.gpu.count * WHOLE // max(1, shape.gpu.milli))


def _sets(candidates: Sequence[Booking], size: int) -> Iterator[list[Booking]]:
    """Sets of so many candidates. Pods without devices that are alike on one node stand for each
    other: of those, the first go first."""
    before: dict[int, int] = {}
    last: dict[tuple[int, Member], int] = {}
    for index, booking in enumerate(candidates):
        if not booking.devices and not booking.claims:
            alike = booking.row, replace(booking.member, pod="")
            if alike in last and candidates[last[alike]].member.labels == booking.member.labels:
                before[index] = last[alike]
            last[alike] = index
    for chosen in combinations(range(len(candidates)), size):
        if all(before.get(index, index) in chosen for index in chosen):
            yield [candidates[index] for index in chosen]


def _first(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest number for which something holds that holds for all above."""
    if low > high or not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _size(gone: Sequence[Booking] | None) -> int:
    return _MOST_FREED + 1 if gone is None else len(gone)


def _has(booking: Booking, resource: str) -> float:
    """How much of a resource a pod has; of GPUs that it shares, its part."""
    ask = booking.shape.gpu
    if resource == GPU and ask is not None:
        return ask.count if ask.whole or not ask.milli else ask.count * ask.milli / WHOLE
    return dict(booking.shape.requests).get(resource, 0)


def _free(trial: Trial, gang: Gang, places: Sequence[Place], gone: list[Booking]) -> Free:
    snapshot, place = trial.snapshot, places[0]
    names, which = short_of(trial, place.worst.shape, place.rows)
    resource = names[int(np.bincount(which, minlength=len(names)).argmax())]
    amount = sum(_has(booking, resource) for booking in gone)
    if not place.lacking and trial.placer.could_fit(tree(gang)):
        resource = ""
    level, domain = _where(snapshot, place.level, gone)
    return Free(
        resource,
        amount,
        level,
        domain,
        tuple(sorted({booking.gang for booking in gone})),
        tuple(sorted(booking.pod for booking in gone)),
    )


def _where(snapshot: Snapshot, level: str, gone: list[Booking]) -> tuple[str, str]:
    """The node, or the domain of a level, on which all of some pods are."""
    rows = sorted({booking.row for booking in gone})
    if len(rows) == 1:
        return NAME, snapshot.names[rows[0]]
    if not level:
        return "", ""
    codes = np.unique(snapshot.labels.domains(level, np.array(rows, np.intp)))
    if len(codes) != 1 or codes[0] == ABSENT:
        return "", ""
    return level, snapshot.labels.column(level).values[int(codes[0])]
