"""The single pod whose migration reduces fragmentation most.

Placement decisions are not revised, so at times two pods share a node where one of them would now
fit better beside a third that arrived later. The gain of a migration is the increase of usable
milli of the nodes. The caller has a budget, decides which pods may migrate, and executes it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.scoring.demand import PackingRequest
from kilonova.scheduler.core.scoring.fragmentation import (
    Floats,
    FragmentationModel,
    FreeResources,
    find_fitting,
    select_tightest_devices,
)

_MAX_TARGETS = 2
"""Targets considered for a request: the best may be the node of the pod itself."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class EquivalentPods:
    """Pods with equal requests: the row of each, and its devices."""

    request: PackingRequest
    rows: NDArray[np.intp]
    devices: NDArray[np.intp]
    """A row for each pod, a column for each device; no columns without GPUs."""


@dataclass(frozen=True, slots=True)
class PodMigration:
    """The pod `index` of those with a request migrates to a row and devices there; `gain` is the
    increase of usable milli."""

    request: PackingRequest
    index: int
    row: int
    devices: tuple[int, ...]
    gain: float


def find_best_migration(
    model: FragmentationModel,
    free: FreeResources,
    placed: Iterable[EquivalentPods],
    admits: Callable[[PackingRequest], Flags],
    min_gain: float,
) -> PodMigration | None:
    """The migration that gains most, None if none gains at least `min_gain`.

    `admits` returns the rows that are feasible for a request apart from what is free. Between
    equals the first.
    """
    before = model.usable_milli(free)
    best: PodMigration | None = None
    for group in placed:
        if not len(group.rows):
            continue
        freed = (
            model.usable_milli(_free_without_pods(free.select_rows(group.rows), group))
            - before[group.rows]
        )
        targets = _find_targets(model, free, before, group.request, admits(group.request))
        if targets is None:
            continue
        rows, cost, devices = targets
        # Pods on the best target use the second best one.
        choice = (group.rows == rows[0]).astype(np.intp)
        gain = np.where(
            choice < len(rows), freed - cost[np.minimum(choice, len(rows) - 1)], -np.inf
        )
        index = int(gain.argmax())
        if gain[index] >= min_gain and (best is None or gain[index] > best.gain):
            to = int(choice[index])
            given = tuple(devices[to].tolist())
            best = PodMigration(group.request, index, int(rows[to]), given, float(gain[index]))
    return best


def _free_without_pods(free: FreeResources, group: EquivalentPods) -> FreeResources:
    """The nodes of pods, each as if its pod were removed."""
    request = group.request
    gpus = free.gpus.copy()
    gpus[np.arange(len(gpus))[:, None], group.devices] += request.milli
    return FreeResources(free.cpu + request.cpu, free.memory + request.memory, gpus)


def _find_targets(
    model: FragmentationModel,
    free: FreeResources,
    before: Floats,
    request: PackingRequest,
    admitted: Flags,
) -> tuple[NDArray[np.intp], Floats, NDArray[np.intp]] | None:
    """The rows where a pod loses least usable milli, the loss, and the devices that it would
    get."""
    rows = np.flatnonzero(find_fitting(request, free) & admitted)
    if not len(rows):
        return None
    there = free.select_rows(rows)
    devices = select_tightest_devices(request, there)
    cost = before[rows] - model.usable_milli(there.after_placing(request, devices))
    order = np.argsort(cost, kind="stable")[:_MAX_TARGETS]
    return rows[order], cost[order], devices[order]
