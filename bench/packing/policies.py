"""Ours, and those it is compared with."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

from bench.packing.play import Rows, Tight
from bench.packing.traces import Nodes
from kilonova.scheduler.core.demand import Arrivals, Ask, Demand
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.fragments import Floats, Left, Worth, score, tightest_devices

_TYPICAL_PART = 0.95
_LEVELS = 100
_STEPS = 10
"""The scheduler compares scores in tenths."""


class RandomChoice:
    """Any node on which a task fits, and any devices."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def arrived(self, ask: Ask) -> bool:
        return True

    def keys(self, ask: Ask, left: Left, rows: Rows) -> Floats:
        return np.array([self._random.random() for _ in rows])

    def devices(self, ask: Ask, left: Left) -> NDArray[np.intp]:
        able = np.flatnonzero(left.gpus[0] >= ask.milli).tolist()
        return np.array([self._random.sample(able, ask.gpus)], np.intp)


class BestFit(Tight):
    """The node with least CPU and GPUs left, each by the largest that a node has."""

    def __init__(self, nodes: Nodes) -> None:
        self._largest = nodes.largest

    def keys(self, ask: Ask, left: Left, rows: Rows) -> Floats:
        largest = self._largest
        gpus = left.gpus.sum(axis=1, dtype=np.int64) / (WHOLE * largest.gpus)
        # What the task takes is the same everywhere.
        return gpus + left.cpu / largest.cpu


class FragmentationGradientDescent(Tight):
    """FGD: where the GPUs that a typical task could not use grow least.

    Typical are the groups by CPU, GPUs and model that are 95 percent of all tasks, known
    beforehand. Scores have 100 levels, as those of a kube-scheduler plug-in; BestFit is between
    equals.
    """

    def __init__(self, nodes: Nodes, tasks: Sequence[Ask]) -> None:
        self._bestfit = BestFit(nodes)
        self._nodes = nodes
        groups = Counter(
            Ask(ask.cpu, 0, ask.gpus, ask.milli, ask.models if ask.gpus else frozenset())
            for ask in tasks
        )
        typical: list[tuple[Ask, int]] = []
        left = _TYPICAL_PART * len(tasks)
        for ask, count in groups.most_common():
            if left <= 0:
                break
            typical.append((ask, count))
            left -= count
        weights = np.array([count for _, count in typical], np.float64)
        self._weights: Floats = weights / weights.sum()
        self._cpu = np.array([ask.cpu for ask, _ in typical])
        self._gpus = np.array([ask.gpus for ask, _ in typical])
        self._milli = np.array([ask.milli for ask, _ in typical])
        suits = [
            [not ask.models or one in ask.models for ask, _ in typical] for one in nodes.models
        ]
        self._suits = np.array(suits)

    def keys(self, ask: Ask, left: Left, rows: Rows) -> Floats:
        after = left.after(ask, tightest_devices(ask, left))
        grown = self._fragment(after, rows) - self._fragment(left, rows)
        level = np.floor(_LEVELS / (1 + np.exp(grown / WHOLE)))
        # BestFit is 2 at most.
        return self._bestfit.keys(ask, left, rows) / 3 - level

    def _fragment(self, left: Left, rows: Rows) -> Floats:
        free = left.gpus[:, None, :]
        total = left.gpus.sum(axis=1, dtype=np.int64)[:, None]
        usable = free >= self._milli[None, :, None]
        able = (left.cpu[:, None] >= self._cpu) & (usable.sum(axis=2) >= self._gpus)
        able &= self._suits[rows] & (self._gpus > 0)
        used: Floats = np.where(able, (free * usable).sum(axis=2), 0).astype(np.float64)
        return ((total - used) * self._weights).sum(axis=1)


class Fit(Tight):
    """Ours: the scheduler's score of how well a pod fits, alone. Learns what is asked for as it
    arrives, or with `tasks` knows it beforehand, as FGD does."""

    def __init__(self, nodes: Nodes, tasks: Sequence[Ask] | None = None) -> None:
        self._nodes = nodes
        self._arrivals = None if tasks is not None else Arrivals()
        self._know(Demand.of(Counter(tasks)) if tasks is not None else Arrivals().demand())

    def _know(self, demand: Demand) -> None:
        self.worth = Worth(demand, self._nodes.largest)
        prices = demand.prices(self._nodes.devices_of)
        self._prices = np.array([prices[model] for model in self._nodes.models])

    def arrived(self, ask: Ask) -> bool:
        if self._arrivals is None:
            return False
        self._arrivals.note([ask])
        if not self._arrivals.is_due:
            return False
        self._know(self._arrivals.demand())
        return True

    def keys(self, ask: Ask, left: Left, rows: Rows) -> Floats:
        return -np.rint(score(self.worth.waste(ask, left, self._prices[rows])) * _STEPS)
