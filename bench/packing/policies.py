"""Our placement policy, and those that it is compared with."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import numpy as np
from numpy.typing import NDArray

from bench.packing.simulation import Rows, TightestDevices
from bench.packing.traces import TraceNodes
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.scoring.demand import ArrivalStatistics, Demand, PackingRequest
from kilonova.scheduler.core.scoring.fragmentation import (
    Floats,
    FragmentationModel,
    FreeResources,
    score_waste,
    select_tightest_devices,
)

_TYPICAL_SHARE = 0.95
_LEVELS = 100
_STEPS = 10
"""The scheduler compares scores in tenths."""


class RandomPolicy:
    """Any node on which a task fits, and any devices."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def on_arrival(self, request: PackingRequest) -> bool:
        return True

    def score_nodes(self, request: PackingRequest, free: FreeResources, rows: Rows) -> Floats:
        return np.array([self._random.random() for _ in rows])

    def select_devices(self, request: PackingRequest, free: FreeResources) -> NDArray[np.intp]:
        able = np.flatnonzero(free.gpus[0] >= request.milli).tolist()
        return np.array([self._random.sample(able, request.gpus)], np.intp)


class BestFitPolicy(TightestDevices):
    """The node with the least free CPU and GPUs, relative to the largest node."""

    def __init__(self, nodes: TraceNodes) -> None:
        self._largest = nodes.largest

    def score_nodes(self, request: PackingRequest, free: FreeResources, rows: Rows) -> Floats:
        largest = self._largest
        gpus = free.gpus.sum(axis=1, dtype=np.int64) / (MILLI_PER_GPU * largest.gpus)
        # The task's own request is the same on all nodes.
        return gpus + free.cpu / largest.cpu


class FragmentationGradientDescent(TightestDevices):
    """FGD: the node where the GPUs that a typical task cannot use grow least.

    Typical are the groups by CPU, GPUs and model that make up 95 percent of all tasks, known in
    advance. Scores have 100 levels, as those of a kube-scheduler plugin; BestFit breaks ties.
    """

    def __init__(self, nodes: TraceNodes, tasks: Sequence[PackingRequest]) -> None:
        self._bestfit = BestFitPolicy(nodes)
        self._nodes = nodes
        groups = Counter(
            PackingRequest(
                request.cpu,
                0,
                request.gpus,
                request.milli,
                request.models if request.gpus else frozenset(),
            )
            for request in tasks
        )
        typical: list[tuple[PackingRequest, int]] = []
        remaining = _TYPICAL_SHARE * len(tasks)
        for request, count in groups.most_common():
            if remaining <= 0:
                break
            typical.append((request, count))
            remaining -= count
        weights = np.array([count for _, count in typical], np.float64)
        self._weights: Floats = weights / weights.sum()
        self._cpu = np.array([request.cpu for request, _ in typical])
        self._gpus = np.array([request.gpus for request, _ in typical])
        self._milli = np.array([request.milli for request, _ in typical])
        suits = [
            [not request.models or one in request.models for request, _ in typical]
            for one in nodes.models
        ]
        self._can_run = np.array(suits)

    def score_nodes(self, request: PackingRequest, free: FreeResources, rows: Rows) -> Floats:
        after = free.after_placing(request, select_tightest_devices(request, free))
        growth = self._compute_fragmentation(after, rows) - self._compute_fragmentation(free, rows)
        level = np.floor(_LEVELS / (1 + np.exp(growth / MILLI_PER_GPU)))
        # The BestFit score is at most 2.
        return self._bestfit.score_nodes(request, free, rows) / 3 - level

    def _compute_fragmentation(self, free_resources: FreeResources, rows: Rows) -> Floats:
        free = free_resources.gpus[:, None, :]
        total = free_resources.gpus.sum(axis=1, dtype=np.int64)[:, None]
        usable = free >= self._milli[None, :, None]
        able = (free_resources.cpu[:, None] >= self._cpu) & (usable.sum(axis=2) >= self._gpus)
        able &= self._can_run[rows] & (self._gpus > 0)
        used: Floats = np.where(able, (free * usable).sum(axis=2), 0).astype(np.float64)
        return ((total - used) * self._weights).sum(axis=1)


class FitPolicy(TightestDevices):
    """Ours: the scheduler's fit score alone. Learns the demand from arrivals, or with `tasks` knows
    it in advance, as FGD does.
    """

    def __init__(self, nodes: TraceNodes, tasks: Sequence[PackingRequest] | None = None) -> None:
        self._nodes = nodes
        self._arrivals = None if tasks is not None else ArrivalStatistics()
        self._set_demand(
            Demand.from_counts(Counter(tasks))
            if tasks is not None
            else ArrivalStatistics().compute_demand()
        )

    def _set_demand(self, demand: Demand) -> None:
        self.node_value = FragmentationModel(demand, self._nodes.largest)
        prices = demand.model_scarcity(self._nodes.devices_of)
        self._prices = np.array([prices[model] for model in self._nodes.models])

    def on_arrival(self, request: PackingRequest) -> bool:
        if self._arrivals is None:
            return False
        self._arrivals.record([request])
        if not self._arrivals.is_refresh_due:
            return False
        self._set_demand(self._arrivals.compute_demand())
        return True

    def score_nodes(self, request: PackingRequest, free: FreeResources, rows: Rows) -> Floats:
        return -np.rint(
            score_waste(self.node_value.wasted_milli(request, free, self._prices[rows])) * _STEPS
        )
