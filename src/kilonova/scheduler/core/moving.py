"""Which single pod, put elsewhere, makes fragments vanish.

Placement never looks back, so now and then two pods stand where one of them would have been better
placed with a third that came later. A move is worth what the nodes are worth more after it. Whoever
calls has a budget, decides which pods may be moved, and carries the move out.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.demand import Ask
from kilonova.scheduler.core.fragments import Floats, Left, Worth, fits, tightest_devices

_CHOICES = 2
"""Targets looked at for an ask: the best may be the node on which the pod stands already."""

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Standing:
    """Pods that ask for the same: of each its row, and the devices that it was given."""

    ask: Ask
    rows: NDArray[np.intp]
    devices: NDArray[np.intp]
    """A line for each pod, a column for each device; no columns without GPUs."""


@dataclass(frozen=True, slots=True)
class Move:
    """The pod `index` of those with an ask goes to a row and devices there; `gain` are milli that
    will be used and would not have been."""

    ask: Ask
    index: int
    row: int
    devices: tuple[int, ...]
    gain: float


def best_move(
    worth: Worth,
    left: Left,
    standing: Iterable[Standing],
    admits: Callable[[Ask], Flags],
    least: float,
) -> Move | None:
    """The move that gains most, None if none gains as much as `least`.

    `admits` says which rows an ask may stand on apart from what is free. Between equals the first.
    """
    before = worth.of(left)
    best: Move | None = None
    for group in standing:
        if not len(group.rows):
            continue
        freed = worth.of(_without(left.at(group.rows), group)) - before[group.rows]
        targets = _targets(worth, left, before, group.ask, admits(group.ask))
        if targets is None:
            continue
        rows, lost, devices = targets
        # Nobody moves to where they are: those who stand on the best target look at the second.
        choice = (group.rows == rows[0]).astype(np.intp)
        gain = np.where(
            choice < len(rows), freed - lost[np.minimum(choice, len(rows) - 1)], -np.inf
        )
        index = int(gain.argmax())
        if gain[index] >= least and (best is None or gain[index] > best.gain):
            to = int(choice[index])
            given = tuple(devices[to].tolist())
            best = Move(group.ask, index, int(rows[to]), given, float(gain[index]))
    return best


def _without(left: Left, group: Standing) -> Left:
    """Nodes of pods, each as if its pod had gone."""
    ask = group.ask
    gpus = left.gpus.copy()
    gpus[np.arange(len(gpus))[:, None], group.devices] += ask.milli
    return Left(left.cpu + ask.cpu, left.memory + ask.memory, gpus)


def _targets(
    worth: Worth, left: Left, before: Floats, ask: Ask, admitted: Flags
) -> tuple[NDArray[np.intp], Floats, NDArray[np.intp]] | None:
    """The rows where a pod costs least, what it costs, and the devices that it would get."""
    rows = np.flatnonzero(fits(ask, left) & admitted)
    if not len(rows):
        return None
    there = left.at(rows)
    devices = tightest_devices(ask, there)
    lost = before[rows] - worth.of(there.after(ask, devices))
    order = np.argsort(lost, kind="stable")[:_CHOICES]
    return rows[order], lost[order], devices[order]
