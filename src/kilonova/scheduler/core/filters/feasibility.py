"""For each shape, vectors over all rows: rejection reasons, free capacity, ranking.

The vectors are cached between cycles and updated only where rows changed: a decision costs as much
as changed since the last one for the same shape, and one search for the maximum of a vector.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kilonova.catalog.resource_names import mig_resource
from kilonova.scheduler.core.filters.node_filters import Reasons, filter_nodes
from kilonova.scheduler.core.gpu.assignment import count_joint_assignments, needs_joint_assignment
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, idle_devices
from kilonova.scheduler.core.gpu.selection import (
    count_fitting_pods,
    has_device_requirements,
    requested_shares,
)
from kilonova.scheduler.core.model.change_log import ChangeLog
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.search_budget import SearchBudget

Counts = NDArray[np.int64]
Keys = NDArray[np.int64]
Scores = NDArray[np.float64]

ScoreFunction = Callable[[Snapshot, Shape, Rows], Scores]
"""The score of each row for one more pod of a shape, 0 to 100; called only for feasible rows. A
function that learns has a `version`, which changes when its scores do. A function with `by_state`
set returns equal scores for rows with equal allocatable amounts and usage."""

NOWHERE = -1
_NEVER = -1
_RANK_BITS = 24
_LEVELS = 2000
"""Number of distinct score values; rows with equal values are ordered by node name."""

_MIN_SHAPES, _MAX_SHAPES = 512, 4096
"""Minimum and maximum number of shapes whose vectors are cached, within `_MAX_BYTES`."""
_MAX_BYTES = 128 << 20
_BYTES_PER_ROW = 17
_MAX_LEVELS = 1 << 16
_SMALL_BATCH = 64
"""With fewer rows, scoring each of them is cheaper than grouping them by state."""


@dataclass(slots=True)
class _Vectors:
    reasons: Reasons
    free_capacity: Counts
    keys: Keys
    spec_position: int = _NEVER
    capacity_position: int = _NEVER
    keys_position: int = _NEVER
    ranking_version: tuple[int, int] = (_NEVER, _NEVER)
    """The generation of the node order, and the version of the score."""
    incomplete_by: SearchBudget | None = None
    """The budget that a search for devices exceeded: with another budget, more may fit."""


class FeasibilityCache:
    """The vectors of the shapes used last."""

    def __init__(self, snapshot: Snapshot, score: ScoreFunction) -> None:
        self._snapshot = snapshot
        self._score = score
        self._vectors: OrderedDict[Shape, _Vectors] = OrderedDict()
        self._level_cache: dict[tuple[Shape, bytes], int] = {}
        """Score level of a row state for a shape, for one version of the score."""
        self._level_version = _NEVER
        self._state_hashes = _StateHashes(snapshot)

    def for_snapshot(self, snapshot: Snapshot) -> "FeasibilityCache":
        """A cache with the same score for another snapshot."""
        return FeasibilityCache(snapshot, self._score)

    def rejection_reasons(self, shape: Shape) -> Reasons:
        """Why each row is infeasible whatever its usage; 0 where it is feasible."""
        return self._updated_vectors(shape).reasons

    def free_capacity(self, shape: Shape) -> Counts:
        """How many pods of a shape fit on each row now."""
        return self._updated_vectors(shape).free_capacity

    def ranking_keys(self, shape: Shape) -> Keys:
        """Ranking of the rows for one more pod: the largest key is best. All keys differ, except
        those of infeasible rows, which are `NOWHERE`."""
        snapshot = self._snapshot
        vectors = self._updated_vectors(shape)
        # A score that learns may change its version when it is called: then all rows are scored
        # again.
        while vectors.ranking_version != (ranking := self._ranking_version()) or (
            vectors.keys_position != vectors.capacity_position
        ):
            if vectors.ranking_version != ranking:
                vectors.keys_position = _NEVER
                vectors.ranking_version = ranking
            # Pods added or removed change the preferences of all nodes in their domains.
            since = (
                _NEVER
                if shape.pod_rules is not None and shape.pod_rules.has_preferences
                else vectors.keys_position
            )
            rows = _changed_rows(snapshot.changes, since, snapshot)
            vectors.keys[rows] = self._rank_rows(shape, rows, vectors.free_capacity[rows])
            vectors.keys_position = vectors.capacity_position
        return vectors.keys

    def best_row(self, shape: Shape) -> int:
        """The best row for one more pod, `NOWHERE` if there is none."""
        keys = self.ranking_keys(shape)
        if not len(keys):
            return NOWHERE
        row = int(keys.argmax())
        return row if keys[row] >= 0 else NOWHERE

    def _ranking_version(self) -> tuple[int, int]:
        return self._snapshot.rank_generation, getattr(self._score, "version", 0)

    def _rank_rows(self, shape: Shape, rows: Rows, free_capacity: Counts) -> Keys:
        keys = np.full(len(rows), NOWHERE, np.int64)
        open_ = free_capacity > 0
        if open_.any():
            chosen = rows[open_]
            levels = self._cached_level(shape, chosen) if len(rows) == 1 else None
            if levels is None:
                levels = self._score_levels_by_state(shape, chosen)
            ranks = (1 << _RANK_BITS) - 1 - self._snapshot.ranks[chosen]
            keys[open_] = (levels << _RANK_BITS) | ranks
        return keys

    def _score_levels(self, shape: Shape, rows: Rows) -> Keys:
        scores = self._score(self._snapshot, shape, rows)
        sound = np.fmin(np.fmax(scores, 0.0), 100.0)  # NaN counts as 0
        return np.rint(sound * (_LEVELS / 100)).astype(np.int64)

    def _score_levels_by_state(self, shape: Shape, rows: Rows) -> Keys:
        """Score levels of rows. Where only the state of a row matters, each distinct state is
        scored once: most nodes of a cluster are in one of a few states."""
        if len(rows) < _SMALL_BATCH or not self._depends_on_state_only(shape):
            return self._score_levels(shape, rows)
        _, first, which = np.unique(
            self._state_hashes.hashes_of(rows), return_index=True, return_inverse=True
        )
        return self._score_levels(shape, rows[first])[which]

    def _depends_on_state_only(self, shape: Shape) -> bool:
        return getattr(self._score, "by_state", False) and _is_state_only(shape)

    def _cached_level(self, shape: Shape, rows: Rows) -> int | None:
        """The score level of one row, from a row in the same state; None where more than the state
        matters. Pods that arrive one by one meet few states."""
        if not self._depends_on_state_only(shape):
            return None
        version = self._ranking_version()[1]
        if self._level_version != version or len(self._level_cache) > _MAX_LEVELS:
            self._level_cache.clear()
            self._level_version = version
        key = shape, self._snapshot.state_key(int(rows[0]))
        level = self._level_cache.get(key)
        if level is None:
            level = int(self._score_levels(shape, rows)[0])
            if self._ranking_version()[1] == version:
                self._level_cache[key] = level
        return level

    def _updated_vectors(self, shape: Shape) -> _Vectors:
        snapshot = self._snapshot
        vectors = self._vectors.get(shape)
        if (
            vectors is None
            or len(vectors.free_capacity) != snapshot.size
            or vectors.incomplete_by not in (None, snapshot.claims.budget)
        ):
            vectors = self._vectors[shape] = _Vectors(
                np.zeros(snapshot.size, np.int8),
                np.zeros(snapshot.size, np.int64),
                np.full(snapshot.size, NOWHERE, np.int64),
            )
            kept = _MAX_BYTES // (_BYTES_PER_ROW * max(1, snapshot.size))
            while len(self._vectors) > min(_MAX_SHAPES, max(_MIN_SHAPES, kept)):
                self._vectors.popitem(last=False)
        else:
            self._vectors.move_to_end(shape)
        if vectors.spec_position != snapshot.spec_changes.position:
            rows = _changed_rows(snapshot.spec_changes, vectors.spec_position, snapshot)
            vectors.reasons[rows] = filter_nodes(snapshot, shape, rows)
            vectors.spec_position = snapshot.spec_changes.position
        if vectors.capacity_position != snapshot.changes.position:
            rows = _changed_rows(snapshot.changes, vectors.capacity_position, snapshot)
            capacity = count_fitting(snapshot, shape, rows)
            capacity[vectors.reasons[rows] != 0] = 0
            vectors.free_capacity[rows] = capacity
            vectors.capacity_position = snapshot.changes.position
        if shape.claims and snapshot.claims.budget.exceeded:
            vectors.incomplete_by = snapshot.claims.budget
        return vectors


class IntersectedFeasibility(FeasibilityCache):
    """Feasible both now and in the shadow of a backfill reservation."""

    def __init__(self, present: FeasibilityCache, shadow: FeasibilityCache) -> None:
        self._present = present
        self._shadow = shadow

    def rejection_reasons(self, shape: Shape) -> Reasons:
        return self._present.rejection_reasons(shape)

    def free_capacity(self, shape: Shape) -> Counts:
        return np.minimum(self._present.free_capacity(shape), self._shadow.free_capacity(shape))

    def ranking_keys(self, shape: Shape) -> Keys:
        return np.where(
            self._shadow.free_capacity(shape) > 0, self._present.ranking_keys(shape), NOWHERE
        )


class _StateHashes:
    """A hash of the state of each row (all that `Snapshot.state_key` includes), equal for rows in
    equal states; updated where rows changed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._hashes: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._columns = (0, 0)
        self._position = _NEVER

    def hashes_of(self, rows: Rows) -> NDArray[np.uint64]:
        snapshot = self._snapshot
        columns = len(snapshot.allocatable), snapshot.gpu_free.shape[1]
        if len(self._hashes) != snapshot.size or self._columns != columns:
            self._hashes, self._columns = np.zeros(snapshot.size, np.uint64), columns
            self._position = _NEVER
        if self._position != snapshot.changes.position:
            changed = _changed_rows(snapshot.changes, self._position, snapshot)
            self._hashes[changed] = self._compute_hashes(changed)
            self._position = snapshot.changes.position
        return self._hashes[rows]

    def _compute_hashes(self, rows: Rows) -> NDArray[np.uint64]:
        snapshot = self._snapshot
        facts = (snapshot.layouts[rows], snapshot.taints[rows], snapshot.gpu_missing[rows])
        parts = [
            *(each for one in _AMOUNTS for each in getattr(snapshot, one)[:, rows]),
            *snapshot.gpu_free[rows].T,
            *snapshot.gpu_mask[rows].T,
            *facts,
        ]
        excess = snapshot.gpu_excess[rows]
        factors = _hash_factors(len(parts) + excess.shape[1]).tolist()
        if excess.any():  # what is 0 adds nothing
            parts += excess.T
        total = np.zeros(len(rows), np.uint64)
        for factor, part in zip(factors, parts, strict=False):
            total += part.astype(np.uint64) * np.uint64(factor)
        return total


_AMOUNTS = ("allocatable", "used", "free")


@lru_cache(maxsize=64)
def _hash_factors(count: int) -> NDArray[np.uint64]:
    return np.random.default_rng(0).integers(1, 1 << 63, count, np.uint64) | np.uint64(1)


def _is_state_only(shape: Shape) -> bool:
    """Whether the score of a shape depends on the state of a row only, not on labels or other
    pods."""
    return not (shape.preferred_node_terms or shape.pod_rules or shape.claims)


def count_fitting(snapshot: Snapshot, shape: Shape, rows: Rows) -> Counts:
    """How many pods of a shape fit on each row, given what is free."""
    columns, amounts = snapshot.request_columns(shape)
    count = np.full(len(rows), _UNLIMITED, np.int64)
    for column, amount in zip(columns.tolist(), amounts.tolist(), strict=True):
        if amount > 0:
            free = snapshot.free[column, rows]
            np.minimum(count, free if amount == 1 else free // amount, out=count)
    if shape.gpu is not None:
        if not shape.gpu.is_whole:
            np.minimum(count, _count_shared_devices(snapshot, shape.gpu, rows), out=count)
        elif has_device_requirements(shape.gpu):
            np.minimum(count, _count_whole_devices(snapshot, shape.gpu, rows), out=count)
    if shape.claims:
        np.minimum(count, snapshot.claims.free_capacity(shape.claims, rows, count), out=count)
        if needs_joint_assignment(snapshot, shape):
            for position in np.flatnonzero(count > 0).tolist():
                row, most = int(rows[position]), int(count[position])
                count[position] = count_joint_assignments(snapshot, row, shape, most)
    return np.maximum(count, 0, out=count)


def _count_whole_devices(snapshot: Snapshot, request: GpuRequest, rows: Rows) -> Counts:
    """How many pods fit on the whole devices of each row that match the request."""
    idle = idle_devices(snapshot.gpu_free[rows], snapshot.gpu_mask[rows])
    return count_fitting_pods(snapshot.layout_of, snapshot.layouts[rows], idle, request)


def _count_shared_devices(snapshot: Snapshot, request: GpuRequest, rows: Rows) -> Counts:
    if request.profile:
        column = snapshot.column(mig_resource(request.profile))
        offered = snapshot.free[column, rows]
        ours = np.array([layout.has_profile(request.profile) for layout in snapshot.layout_of])
        feasible = _count_instances(snapshot, request, rows)
        return np.where(ours[snapshot.layouts[rows]], feasible, offered) // request.count
    free = snapshot.gpu_free[rows]
    milli, memory = requested_shares(
        snapshot.layout_of, snapshot.layouts[rows], request, free.shape[1]
    )
    if request.share_memory:
        fitting = np.minimum(free // milli, (free - snapshot.gpu_excess[rows]) // memory)
    else:
        fitting = snapshot.usable_gpu_milli(rows) // milli
    per_device = np.where(snapshot.gpu_mask[rows] == 0, fitting, 0)
    _exclude_unoffered(snapshot, rows, per_device)
    if request.count == 1:
        return per_device.sum(axis=1)
    return _count_device_groups(per_device, request.count)


def _count_device_groups(slots: Counts, count: int) -> Counts:
    """How many pods can each get `count` different devices, given the slots of every device.

    A number of pods fits exactly if the devices have enough slots when each device serves every pod
    at most once. Feasibility is monotonic, so the maximum is found by binary search.
    """
    low: Counts = np.zeros(len(slots), np.int64)
    high: Counts = slots.sum(axis=1, dtype=np.int64) // count
    while bool((low < high).any()):
        middle: Counts = (low + high + 1) // 2
        enough = np.minimum(slots, middle[:, None]).sum(axis=1) >= count * middle
        low, high = np.where(enough, middle, low), np.where(enough, high, middle - 1)
    return low


def _exclude_unoffered(snapshot: Snapshot, rows: Rows, slots: Counts) -> None:
    """Sets the slots to 0 of as many idle devices as the node has and does not list as allocatable.
    Which devices these are is not known: the ones with most slots are taken to be missing."""
    for position in np.flatnonzero(snapshot.gpu_missing[rows]).tolist():
        row = rows[position]
        idle = snapshot.has_idle_device(int(row))
        offered = max(0, int(idle.sum()) - int(snapshot.gpu_missing[row]))
        untouched = np.flatnonzero(idle & (slots[position] > 0))
        fewest = untouched[np.argsort(slots[position, untouched], kind="stable")]
        slots[position, fewest[offered:]] = 0


def _count_instances(snapshot: Snapshot, request: GpuRequest, rows: Rows) -> Counts:
    """How many instances of a MIG profile could be created on each row."""
    total = np.zeros(len(rows), np.int64)
    layouts = snapshot.layouts[rows]
    for layout_id, layout in enumerate(snapshot.layout_of):
        suiting = layout.eligible_devices(request)
        if suiting:
            here = layouts == layout_id
            masks = snapshot.gpu_mask[rows[here]]
            idle = (snapshot.gpu_free[rows[here]] == MILLI_PER_GPU) | (masks != 0)
            devices = [gpu.index for gpu in layout.gpus if suiting >> gpu.index & 1]
            total[here] = (
                layout.instance_counts(request.profile)[devices, masks[:, devices]]
                * idle[:, devices]
            ).sum(axis=1)
    return total


def _changed_rows(changes: ChangeLog, position: int, snapshot: Snapshot) -> Rows:
    rows = changes.since(position) if position != _NEVER else None
    return np.arange(snapshot.size) if rows is None else rows


_UNLIMITED = 1 << 30
