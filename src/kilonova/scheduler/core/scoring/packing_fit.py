"""The `fit` score plugin: how little usable capacity a pod wastes on a node (see `fragmentation`).

It uses the demand and the node sizes of the time when it was built, so that the score of a row
changes only with the row. A new `PackingFit` needs a new `FeasibilityCache`.
"""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from kilonova.scheduler.core.gpu.layout import (
    MILLI_PER_GPU,
    GpuLayout,
    model_matches,
    requested_share,
)
from kilonova.scheduler.core.gpu.mig import ProfileDemand
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.scoring.demand import ArrivalStatistics, Demand, PackingRequest
from kilonova.scheduler.core.scoring.fragmentation import (
    Floats,
    FragmentationModel,
    FreeResources,
    LargestNode,
    score_waste,
)
from kilonova.scheduler.core.scoring.mig_demand import MigDemand
from kilonova.scheduler.core.scoring.mig_fragmentation import wasted_instance_milli


class PackingFit:
    """A score function."""

    def __init__(
        self,
        fragmentation: FragmentationModel,
        model_scarcity: Mapping[str, float],
        mig_demand: ProfileDemand = (),
    ) -> None:
        self.mig_demand = mig_demand
        self.fragmentation = fragmentation
        self.model_scarcity = model_scarcity
        """Scarcity by model in lower case."""
        self._scarcity_by_layout: list[float] = []

    @staticmethod
    def from_snapshot(snapshot: Snapshot, demand: Demand | None = None) -> "PackingFit":
        """For the nodes of a snapshot; without a demand, with the one expected before any
        arrival."""
        demand = demand or ArrivalStatistics().compute_demand()
        rows = np.flatnonzero(snapshot.alive[: snapshot.size])
        amounts = snapshot.allocatable[:, rows].max(axis=1, initial=0)
        sizes = [len(layout.gpus) for layout in snapshot.layout_of]
        largest = LargestNode(
            int(amounts[snapshot.resources["cpu"]]),
            int(amounts[snapshot.resources["memory"]]),
            max(sizes),
        )
        devices: dict[str, int] = {}
        counts = np.bincount(snapshot.layouts[rows], minlength=len(snapshot.layout_of))
        for layout, count in zip(snapshot.layout_of, counts.tolist(), strict=True):
            for gpu in layout.gpus:
                devices[gpu.model] = devices.get(gpu.model, 0) + count
        return PackingFit(
            FragmentationModel(demand, largest),
            _model_scarcity(demand, devices),
            snapshot.mig_demand,
        )

    def __call__(self, snapshot: Snapshot, shape: Shape, rows: Rows) -> Floats:
        left = free_resources_on(snapshot, rows)
        layouts = snapshot.layouts[rows]
        prices = self._layout_scarcity(snapshot)[layouts]
        gpu = shape.gpu
        if gpu is None or gpu.profile or (gpu.milli and not gpu.share_memory):
            waste = self.fragmentation.wasted_milli(packing_request(shape), left, prices)
            if gpu is not None and gpu.profile:
                waste += wasted_instance_milli(snapshot, gpu, rows, self.mig_demand)
            return score_waste(waste)
        waste = np.empty(len(rows))
        for number in np.unique(layouts):
            here = np.flatnonzero(layouts == number)
            request = packing_request(shape, snapshot.layout_of[int(number)])
            waste[here] = self.fragmentation.wasted_milli(
                request, left.select_rows(here), prices[here]
            )
        return score_waste(waste)

    def _layout_scarcity(self, snapshot: Snapshot) -> Floats:
        for layout in snapshot.layout_of[len(self._scarcity_by_layout) :]:
            models = [self.model_scarcity.get(gpu.model.lower(), 0.0) for gpu in layout.gpus]
            self._scarcity_by_layout.append(max(models, default=0.0))
        return np.array(self._scarcity_by_layout)


class LearnedPackingFit:
    """A score function: the `PackingFit` for the pods that arrived until the last call of `learn`.

    `version` changes with it, so that cached scores are recomputed.
    """

    def __init__(self, arrivals: ArrivalStatistics | None = None) -> None:
        self.arrivals = arrivals or ArrivalStatistics()
        self.mig = MigDemand()
        self.version = 0
        self._fit: PackingFit | None = None
        self._rank_generation = -1

    def record_arrival(self, shape: Shape) -> None:
        """Counts an arriving pod."""
        self.arrivals.record([packing_request(shape)])
        self.mig.record(shape)

    def learn(self, snapshot: Snapshot) -> None:
        """Rebuilds the fit if arrivals or nodes changed enough to matter. At first, the demand for
        MIG profiles is that of running pods."""
        if self._fit is None and not snapshot.mig_demand:
            placed = (snapshot.placements[pod].shape for pod in sorted(snapshot.placements))
            waiting, self.mig = self.mig, MigDemand.of_shapes(placed)
            self.mig.add(waiting)
        if self.mig.counts:
            snapshot.mig_demand = self.mig.weights()
        nodes = snapshot.rank_generation
        if self._fit is None or self.arrivals.is_refresh_due or self._rank_generation != nodes:
            self.version += self._fit is not None  # before the first fit, no score was given
            self._fit = PackingFit.from_snapshot(snapshot, self.arrivals.compute_demand())
            self._rank_generation = nodes
        elif self._fit.mig_demand != snapshot.mig_demand:
            self.version += 1
            self._fit = replace_demand(self._fit, snapshot.mig_demand)

    def current_fit(self, snapshot: Snapshot) -> PackingFit:
        """The current fit, independent of later arrivals: for a copy of the cluster."""
        fit = self._current(snapshot)
        return replace_demand(fit, fit.mig_demand)

    def __call__(self, snapshot: Snapshot, shape: Shape, rows: Rows) -> Floats:
        return self._current(snapshot)(snapshot, shape, rows)

    def _current(self, snapshot: Snapshot) -> PackingFit:
        if self._fit is None:
            self.learn(snapshot)
            assert self._fit is not None
        return self._fit


def replace_demand(fit: PackingFit, demand: ProfileDemand) -> PackingFit:
    """The same fit, with another demand for MIG profiles."""
    return PackingFit(fit.fragmentation, fit.model_scarcity, demand)


def free_resources_on(snapshot: Snapshot, rows: Rows) -> FreeResources:
    """What is free on rows, as far as packing is concerned."""
    return FreeResources(
        snapshot.free[snapshot.resources["cpu"], rows],
        snapshot.free[snapshot.resources["memory"], rows],
        # A device with MIG instances has no free fraction.
        np.where(snapshot.gpu_mask[rows] == 0, snapshot.usable_gpu_milli(rows), 0),
    )


@lru_cache(maxsize=4096)
def packing_request(shape: Shape, layout: GpuLayout | None = None) -> PackingRequest:
    """The packing request of a shape. A fraction given in memory is converted with the devices of a
    layout; without a layout it counts as half a device. Of compute capacity and memory the larger
    fraction counts."""
    requests = dict(shape.requests)
    cpu, memory = requests.get("cpu", 0), requests.get("memory", 0)
    gpu = shape.gpu
    if gpu is None or gpu.profile:
        return PackingRequest(cpu, memory)
    milli = gpu.milli or MILLI_PER_GPU // 2
    if layout is not None and (gpu.share_memory or not gpu.milli):
        sizes = (max(requested_share(device, gpu)) for device in layout.gpus)
        milli = min(sizes, default=MILLI_PER_GPU)
    models = frozenset(model.lower() for model in gpu.models)
    return PackingRequest(cpu, memory, gpu.count, min(milli, MILLI_PER_GPU), models)


def _model_scarcity(demand: Demand, devices: Mapping[str, int]) -> dict[str, float]:
    """Scarcity by model in lower case. Pods may name a model by a part of its name."""
    capacity = {model.lower(): number for model, number in devices.items()}

    def resolve_models(request: PackingRequest) -> PackingRequest:
        models = frozenset(
            model
            for model in capacity
            if any(model_matches(name, model) for name in request.models)
        )
        return PackingRequest(request.cpu, request.memory, request.gpus, request.milli, models)

    weights: dict[PackingRequest, float] = {}
    for gpu_request, weight in demand.weights.items():
        key = resolve_models(gpu_request) if gpu_request.models else gpu_request
        weights[key] = weights.get(key, 0.0) + weight
    return Demand(weights).model_scarcity(capacity)
