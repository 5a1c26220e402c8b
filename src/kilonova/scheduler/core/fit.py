"""The part of a node's score that says how well a pod fits: see `fragments`.

It goes by what is usually asked for and by what the cluster's nodes are like, both as they were
when it was made, so that a row's score changes only with the row. Who makes another makes other
`Rooms`, too.
"""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.demand import Arrivals, Ask, Demand
from kilonova.scheduler.core.devices import WHOLE, Layout, model_matches, share_of
from kilonova.scheduler.core.fragments import Floats, Largest, Left, Worth, score
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.snapshot import Snapshot


class Fit:
    """A `Score`. Of a pod that asks for MIG instances only CPU and memory are considered: which
    device leaves most to others is decided within the node."""

    def __init__(self, worth: Worth, prices: Mapping[str, float]) -> None:
        self.worth = worth
        """By what holes are judged."""
        self.prices = prices
        """By model in small letters."""
        self._price_of: list[float] = []
        """By layout."""

    @staticmethod
    def of(snapshot: Snapshot, demand: Demand | None = None) -> "Fit":
        """For the nodes of a snapshot; without a demand, what is expected before any pod came."""
        demand = demand or Arrivals().demand()
        rows = np.flatnonzero(snapshot.alive[: snapshot.size])
        amounts = snapshot.allocatable[:, rows].max(axis=1, initial=0)
        sizes = [len(layout.gpus) for layout in snapshot.layout_of]
        largest = Largest(
            int(amounts[snapshot.resources["cpu"]]),
            int(amounts[snapshot.resources["memory"]]),
            max(sizes),
        )
        devices: dict[str, int] = {}
        counts = np.bincount(snapshot.layouts[rows], minlength=len(snapshot.layout_of))
        for layout, count in zip(snapshot.layout_of, counts.tolist(), strict=True):
            for gpu in layout.gpus:
                devices[gpu.model] = devices.get(gpu.model, 0) + count
        return Fit(Worth(demand, largest), _prices(demand, devices))

    def __call__(self, snapshot: Snapshot, shape: Shape, rows: Rows) -> Floats:
        left = left_on(snapshot, rows)
        layouts = snapshot.layouts[rows]
        prices = self._priced(snapshot)[layouts]
        gpu = shape.gpu
        if gpu is None or gpu.milli or gpu.profile:
            return score(self.worth.waste(ask_of(shape), left, prices))
        waste = np.empty(len(rows))
        for number in np.unique(layouts):
            here = np.flatnonzero(layouts == number)
            ask = ask_of(shape, snapshot.layout_of[int(number)])
            waste[here] = self.worth.waste(ask, left.at(here), prices[here])
        return score(waste)

    def _priced(self, snapshot: Snapshot) -> Floats:
        for layout in snapshot.layout_of[len(self._price_of) :]:
            models = [self.prices.get(gpu.model.lower(), 0.0) for gpu in layout.gpus]
            self._price_of.append(max(models, default=0.0))
        return np.array(self._price_of)


class LearntFit:
    """A `Score`: the `Fit` for what arrived until `learn` was last called.

    `version` changes with it, so that whoever keeps scores knows that they are others now.
    """

    def __init__(self, arrivals: Arrivals | None = None) -> None:
        self.arrivals = arrivals or Arrivals()
        self.version = 0
        self._fit: Fit | None = None
        self._nodes = -1

    def note(self, shape: Shape) -> None:
        """A pod has arrived."""
        self.arrivals.note([ask_of(shape)])

    def learn(self, snapshot: Snapshot) -> None:
        """Goes by what arrived until now, if that or the nodes may make a difference."""
        nodes = snapshot.rank_changes
        if self._fit is None or self.arrivals.is_due or self._nodes != nodes:
            self.version += self._fit is not None  # before the first, nobody was told a score
            self._fit = Fit.of(snapshot, self.arrivals.demand())
            self._nodes = nodes

    def learnt(self, snapshot: Snapshot) -> Fit:
        """What it goes by now, on its own: for who looks at a copy of the cluster."""
        fit = self._known(snapshot)
        return Fit(fit.worth, fit.prices)

    def __call__(self, snapshot: Snapshot, shape: Shape, rows: Rows) -> Floats:
        return self._known(snapshot)(snapshot, shape, rows)

    def _known(self, snapshot: Snapshot) -> Fit:
        if self._fit is None:
            self.learn(snapshot)
            assert self._fit is not None
        return self._fit


def left_on(snapshot: Snapshot, rows: Rows) -> Left:
    """What is free on rows, as far as packing is concerned."""
    return Left(
        snapshot.free[snapshot.resources["cpu"], rows],
        snapshot.free[snapshot.resources["memory"], rows],
        # What instances were made on is nobody's hole.
        np.where(snapshot.gpu_mask[rows] == 0, snapshot.gpu_free[rows], 0),
    )


@lru_cache(maxsize=4096)
def ask_of(shape: Shape, layout: Layout | None = None) -> Ask:
    """What a shape asks for, as far as packing is concerned; a share that is told in memory is so
    much of the devices of a layout, or half a device where none is given."""
    requests = dict(shape.requests)
    cpu, memory = requests.get("cpu", 0), requests.get("memory", 0)
    gpu = shape.gpu
    if gpu is None or gpu.profile:
        return Ask(cpu, memory)
    milli = gpu.milli or WHOLE // 2
    if not gpu.milli and layout is not None:
        milli = min((share_of(device, gpu) for device in layout.gpus), default=WHOLE)
    models = frozenset(model.lower() for model in gpu.models)
    return Ask(cpu, memory, gpu.count, min(milli, WHOLE), models)


def _prices(demand: Demand, devices: Mapping[str, int]) -> dict[str, float]:
    """By model in small letters. Pods may name a model by a part of its name."""
    capacity = {model.lower(): number for model, number in devices.items()}

    def resolved(ask: Ask) -> Ask:
        models = frozenset(
            model for model in capacity if any(model_matches(name, model) for name in ask.models)
        )
        return Ask(ask.cpu, ask.memory, ask.gpus, ask.milli, models)

    weights: dict[Ask, float] = {}
    for ask, weight in demand.weights.items():
        key = resolved(ask) if ask.models else ask
        weights[key] = weights.get(key, 0.0) + weight
    return Demand(weights).prices(capacity)
