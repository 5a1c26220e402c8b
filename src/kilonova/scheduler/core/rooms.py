"""For each shape, vectors over all rows: why not, how many, how good.

Kept between decisions and brought up to date only where rows changed: a decision costs what changed
since the last one for the same shape, and one search for the largest of a vector.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.asks import GpuAsk, Shape
from kilonova.scheduler.core.changes import Changes
from kilonova.scheduler.core.choosing import insists, shares_asked
from kilonova.scheduler.core.choosing import rooms as whole_rooms
from kilonova.scheduler.core.devices import WHOLE, idle_devices
from kilonova.scheduler.core.filters import Reasons, reasons
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.search_budget import SearchBudget
from kilonova.scheduler.core.snapshot import Snapshot, mig_resource

Counts = NDArray[np.int64]
Keys = NDArray[np.int64]
Scores = NDArray[np.float64]

Score = Callable[[Snapshot, Shape, Rows], Scores]
"""How good each row is for one more pod of a shape, 0 to 100; asked only where there is room. One
that learns has a `version`, which changes with what it would say; one that says the same of rows
which have and use the same is `by_state`."""

NOWHERE = -1
_NEVER = -1
_RANK_BITS = 24
_LEVELS = 2000
"""Scores are compared in so many steps; equals by name."""

_FEWEST_KEPT, _MOST_KEPT = 512, 4096
"""Of so many shapes at least, and at most, the vectors are kept, within `_KEPT_BYTES`."""
_KEPT_BYTES = 128 << 20
_BYTES_PER_ROW = 17
_KEPT_LEVELS = 1 << 16
_FEW = 64
"""So few rows are not worth being compared with each other."""


@dataclass(slots=True)
class _Vectors:
    reasons: Reasons
    room: Counts
    keys: Keys
    facts_at: int = _NEVER
    room_at: int = _NEVER
    keys_at: int = _NEVER
    ranked_by: tuple[int, int] = (_NEVER, _NEVER)
    """The order of names, and the version of the score."""
    incomplete_by: SearchBudget | None = None
    """The budget of a search for devices that was exceeded: with another, there may be more."""


class Rooms:
    """The vectors of the shapes that were asked for last."""

    def __init__(self, snapshot: Snapshot, score: Score) -> None:
        self._snapshot = snapshot
        self._score = score
        self._vectors: OrderedDict[Shape, _Vectors] = OrderedDict()
        self._levels: dict[tuple[Shape, bytes], int] = {}
        """What a row in some state is worth to a shape, by the score of one version."""
        self._levels_by = _NEVER
        self._states = _States(snapshot)

    def of(self, snapshot: Snapshot) -> "Rooms":
        """The same score on another snapshot."""
        return Rooms(snapshot, self._score)

    def reasons(self, shape: Shape) -> Reasons:
        """Why each row will not do whatever is used; 0 where it will."""
        return self._fresh(shape).reasons

    def room(self, shape: Shape) -> Counts:
        """How many pods of a shape each row could take now."""
        return self._fresh(shape).room

    def keys(self, shape: Shape) -> Keys:
        """Rows in order of preference for one more pod: the largest is best, all differ but those
        that will not do, which are `NOWHERE`."""
        snapshot = self._snapshot
        vectors = self._fresh(shape)
        # What the score says may change by its being asked: then all of it is asked again.
        while vectors.ranked_by != (ranking := self._ranking()) or (
            vectors.keys_at != vectors.room_at
        ):
            if vectors.ranked_by != ranking:
                vectors.keys_at = _NEVER
                vectors.ranked_by = ranking
            # Where others came or went matters to all nodes of their domains, not to theirs alone.
            since = _NEVER if shape.peers is not None and shape.peers.wishes else vectors.keys_at
            rows = _changed(snapshot.changes, since, snapshot)
            vectors.keys[rows] = self._ranked(shape, rows, vectors.room[rows])
            vectors.keys_at = vectors.room_at
        return vectors.keys

    def best(self, shape: Shape) -> int:
        """The row for one more pod, `NOWHERE` if there is none."""
        keys = self.keys(shape)
        if not len(keys):
            return NOWHERE
        row = int(keys.argmax())
        return row if keys[row] >= 0 else NOWHERE

    def _ranking(self) -> tuple[int, int]:
        return self._snapshot.rank_changes, getattr(self._score, "version", 0)

    def _ranked(self, shape: Shape, rows: Rows, room: Counts) -> Keys:
        keys = np.full(len(rows), NOWHERE, np.int64)
        open_ = room > 0
        if open_.any():
            chosen = rows[open_]
            levels = self._known_level(shape, chosen) if len(rows) == 1 else None
            if levels is None:
                levels = self._leveled_by_state(shape, chosen)
            ranks = (1 << _RANK_BITS) - 1 - self._snapshot.ranks[chosen]
            keys[open_] = (levels << _RANK_BITS) | ranks
        return keys

    def _leveled(self, shape: Shape, rows: Rows) -> Keys:
        scores = self._score(self._snapshot, shape, rows)
        sound = np.fmin(np.fmax(scores, 0.0), 100.0)  # what is no number counts as nothing
        return np.rint(sound * (_LEVELS / 100)).astype(np.int64)

    def _leveled_by_state(self, shape: Shape, rows: Rows) -> Keys:
        """What rows are worth: where only their state counts, those in the same are asked about
        once. Most nodes of a cluster are in one of a few states."""
        if len(rows) < _FEW or not self._goes_by_state(shape):
            return self._leveled(shape, rows)
        _, first, which = np.unique(self._states.of(rows), return_index=True, return_inverse=True)
        return self._leveled(shape, rows[first])[which]

    def _goes_by_state(self, shape: Shape) -> bool:
        return getattr(self._score, "by_state", False) and _by_state(shape)

    def _known_level(self, shape: Shape, rows: Rows) -> int | None:
        """What one row is worth, as another in the same state was; None where more than its state
        counts. Pods that come one by one meet few states."""
        if not self._goes_by_state(shape):
            return None
        version = self._ranking()[1]
        if self._levels_by != version or len(self._levels) > _KEPT_LEVELS:
            self._levels.clear()
            self._levels_by = version
        key = shape, self._snapshot.state(int(rows[0]))
        level = self._levels.get(key)
        if level is None:
            level = int(self._leveled(shape, rows)[0])
            if self._ranking()[1] == version:
                self._levels[key] = level
        return level

    def _fresh(self, shape: Shape) -> _Vectors:
        snapshot = self._snapshot
        vectors = self._vectors.get(shape)
        if (
            vectors is None
            or len(vectors.room) != snapshot.size
            or vectors.incomplete_by not in (None, snapshot.claims.budget)
        ):
            vectors = self._vectors[shape] = _Vectors(
                np.zeros(snapshot.size, np.int8),
                np.zeros(snapshot.size, np.int64),
                np.full(snapshot.size, NOWHERE, np.int64),
            )
            kept = _KEPT_BYTES // (_BYTES_PER_ROW * max(1, snapshot.size))
            while len(self._vectors) > min(_MOST_KEPT, max(_FEWEST_KEPT, kept)):
                self._vectors.popitem(last=False)
        else:
            self._vectors.move_to_end(shape)
        if vectors.facts_at != snapshot.fact_changes.position:
            rows = _changed(snapshot.fact_changes, vectors.facts_at, snapshot)
            vectors.reasons[rows] = reasons(snapshot, shape, rows)
            vectors.facts_at = snapshot.fact_changes.position
        if vectors.room_at != snapshot.changes.position:
            rows = _changed(snapshot.changes, vectors.room_at, snapshot)
            room = fitting(snapshot, shape, rows)
            room[vectors.reasons[rows] != 0] = 0
            vectors.room[rows] = room
            vectors.room_at = snapshot.changes.position
        if shape.claims and snapshot.claims.budget.exceeded:
            vectors.incomplete_by = snapshot.claims.budget
        return vectors


class BothRooms(Rooms):
    """Room that there is now and in a shadow."""

    def __init__(self, present: Rooms, shadow: Rooms) -> None:
        self._present = present
        self._shadow = shadow

    def reasons(self, shape: Shape) -> Reasons:
        return self._present.reasons(shape)

    def room(self, shape: Shape) -> Counts:
        return np.minimum(self._present.room(shape), self._shadow.room(shape))

    def keys(self, shape: Shape) -> Keys:
        return np.where(self._shadow.room(shape) > 0, self._present.keys(shape), NOWHERE)


class _States:
    """A number for the state of each row, equal for rows that have and use the same: a hash of all
    that `Snapshot.state` says, brought up to date where rows changed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._hashes: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._columns = (0, 0)
        self._at = _NEVER

    def of(self, rows: Rows) -> NDArray[np.uint64]:
        snapshot = self._snapshot
        columns = len(snapshot.allocatable), snapshot.gpu_free.shape[1]
        if len(self._hashes) != snapshot.size or self._columns != columns:
            self._hashes, self._columns = np.zeros(snapshot.size, np.uint64), columns
            self._at = _NEVER
        if self._at != snapshot.changes.position:
            changed = _changed(snapshot.changes, self._at, snapshot)
            self._hashes[changed] = self._hashed(changed)
            self._at = snapshot.changes.position
        return self._hashes[rows]

    def _hashed(self, rows: Rows) -> NDArray[np.uint64]:
        snapshot = self._snapshot
        facts = (snapshot.layouts[rows], snapshot.taints[rows], snapshot.gpu_missing[rows])
        parts = (
            *(each for one in _AMOUNTS for each in getattr(snapshot, one)[:, rows]),
            *snapshot.gpu_free[rows].T,
            *snapshot.gpu_mask[rows].T,
            *facts,
        )
        total = np.zeros(len(rows), np.uint64)
        for factor, part in zip(_factors(len(parts)).tolist(), parts, strict=True):
            total += part.astype(np.uint64) * np.uint64(factor)
        return total


_AMOUNTS = ("allocatable", "used", "free")


@lru_cache(maxsize=64)
def _factors(count: int) -> NDArray[np.uint64]:
    return np.random.default_rng(0).integers(1, 1 << 63, count, np.uint64) | np.uint64(1)


def _by_state(shape: Shape) -> bool:
    """Whether a shape minds only what a row has and uses: not how it is called, nor who is near."""
    return not (shape.preferred or shape.peers or shape.claims)


def fitting(snapshot: Snapshot, shape: Shape, rows: Rows) -> Counts:
    """How many pods of a shape fit on each row by what is free."""
    columns, amounts = snapshot.request(shape)
    count = np.full(len(rows), _MANY, np.int64)
    for column, amount in zip(columns.tolist(), amounts.tolist(), strict=True):
        if amount > 0:
            free = snapshot.free[column, rows]
            np.minimum(count, free if amount == 1 else free // amount, out=count)
    if shape.gpu is not None:
        if not shape.gpu.whole:
            np.minimum(count, _sharing(snapshot, shape.gpu, rows), out=count)
        elif insists(shape.gpu):
            np.minimum(count, _suiting(snapshot, shape.gpu, rows), out=count)
    if shape.claims:
        np.minimum(count, snapshot.claims.rooms(shape.claims, rows, count), out=count)
    return np.maximum(count, 0, out=count)


def _suiting(snapshot: Snapshot, ask: GpuAsk, rows: Rows) -> Counts:
    """How often each row has whole devices of the kind that is insisted on."""
    idle = idle_devices(snapshot.gpu_free[rows], snapshot.gpu_mask[rows])
    return whole_rooms(snapshot.layout_of, snapshot.layouts[rows], idle, ask)


def _sharing(snapshot: Snapshot, ask: GpuAsk, rows: Rows) -> Counts:
    if ask.profile:
        column = snapshot.column(mig_resource(ask.profile))
        offered = snapshot.free[column, rows]
        ours = np.array([layout.has_profile(ask.profile) for layout in snapshot.layout_of])
        able = _instances(snapshot, ask, rows)
        return np.where(ours[snapshot.layouts[rows]], able, offered) // ask.count
    free = snapshot.gpu_free[rows]
    milli = shares_asked(snapshot.layout_of, snapshot.layouts[rows], ask, free.shape[1])
    per_device = np.where(snapshot.gpu_mask[rows] == 0, free // milli, 0)
    _close_missing(snapshot, rows, per_device)
    if ask.count == 1:
        return per_device.sum(axis=1)
    return _together(per_device, ask.count)


def _together(slots: Counts, count: int) -> Counts:
    """How often `count` different devices can be taken of those with so many slots each.

    So many pods find devices exactly if every device is used at most once for each of them and
    still all have enough; the more pods, the harder, so the most is found by halving.
    """
    low: Counts = np.zeros(len(slots), np.int64)
    high: Counts = slots.sum(axis=1, dtype=np.int64) // count
    while bool((low < high).any()):
        middle: Counts = (low + high + 1) // 2
        enough = np.minimum(slots, middle[:, None]).sum(axis=1) >= count * middle
        low, high = np.where(enough, middle, low), np.where(enough, high, middle - 1)
    return low


def _close_missing(snapshot: Snapshot, rows: Rows, slots: Counts) -> None:
    """Takes away the room on untouched devices that a node shows and does not offer: which of them
    these are nobody says."""
    for position in np.flatnonzero(snapshot.gpu_missing[rows]).tolist():
        row = rows[position]
        idle = (snapshot.gpu_free[row] == WHOLE) & (snapshot.gpu_mask[row] == 0)
        offered = max(0, int(idle.sum()) - int(snapshot.gpu_missing[row]))
        untouched = np.flatnonzero(idle & (slots[position] > 0))
        fewest = untouched[np.argsort(slots[position, untouched], kind="stable")]
        slots[position, fewest[offered:]] = 0


def _instances(snapshot: Snapshot, ask: GpuAsk, rows: Rows) -> Counts:
    """How many instances of a MIG profile could be made on each row."""
    total = np.zeros(len(rows), np.int64)
    layouts = snapshot.layouts[rows]
    for layout_id, layout in enumerate(snapshot.layout_of):
        suiting = layout.eligible(ask)
        if suiting:
            here = layouts == layout_id
            masks = snapshot.gpu_mask[rows[here]]
            idle = (snapshot.gpu_free[rows[here]] == WHOLE) | (masks != 0)
            devices = [gpu.index for gpu in layout.gpus if suiting >> gpu.index & 1]
            total[here] = (
                layout.instances(ask.profile)[devices, masks[:, devices]] * idle[:, devices]
            ).sum(axis=1)
    return total


def _changed(changes: Changes, position: int, snapshot: Snapshot) -> Rows:
    rows = changes.since(position) if position != _NEVER else None
    return np.arange(snapshot.size) if rows is None else rows


_MANY = 1 << 30
