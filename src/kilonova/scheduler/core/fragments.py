"""How much of what is free will be used, and where one more pod spoils least of it.

The **worth** of a node is how many milli of its devices will be used in the end, if pods come as
they usually do and each that fits may be taken. What is free and will not be used is a fragment.
A pod goes where worth is lost least: the sliver that nobody fills is avoided, shares that make up
a whole device meet, and pods that need much CPU go where CPU outlasts the devices.

Two tables are worked out once for a demand. `holes` is the worth of a partly used device by what is
left of it and by the CPU that comes with it; `whole` that of so many untouched devices and their
CPU. A node divides its CPU among its devices by what is left of them. A hole may wait for what
fills it best, but not for ever: `_PATIENCE`. A score is then a few look-ups a row, however many
kinds of pods there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.demand import Ask, Demand
from kilonova.scheduler.core.devices import WHOLE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_COLUMNS = 64
"""Steps of CPU in the tables."""
_STEP = 10
"""Milli in a step of what is left of a device."""
_TYPICAL = 32
"""Kinds of asks that the tables know: those that want most devices."""
_PATIENCE = 0.01
"""An ask that is so rare among arrivals fills half of the holes that wait for it."""
_BREAKING = 0.02
"""Weight of devices that asks for several cannot use, in a node with too few left."""
_LOOSENESS = 30.0
"""Milli that an empty node is worse than a full one, all else being equal: the rest stays whole."""
_SCARCITY = 0.4
"""Weight of a model's price."""
_SOFTNESS = 50.0
"""Milli of waste a device at which a score has lost half of its way to 0."""


@dataclass(frozen=True, slots=True)
class Left:
    """What is free on nodes: cpu in milli, memory in bytes, milli of each device."""

    cpu: Ints
    memory: Ints
    gpus: NDArray[np.int16]

    def at(self, rows: NDArray[np.intp]) -> "Left":
        return Left(self.cpu[rows], self.memory[rows], self.gpus[rows])

    def with_more(self, other: "Left") -> "Left":
        return Left(
            np.concatenate((self.cpu, other.cpu)),
            np.concatenate((self.memory, other.memory)),
            np.concatenate((self.gpus, other.gpus)),
        )

    def after(self, ask: Ask, devices: NDArray[np.intp]) -> "Left":
        """With one more pod on each, given these devices."""
        gpus = self.gpus
        if ask.gpus:
            gpus = gpus.copy()
            rows = np.arange(len(gpus))[:, None]
            gpus[rows, devices] -= ask.milli
        return Left(self.cpu - ask.cpu, self.memory - ask.memory, gpus)


@dataclass(frozen=True, slots=True)
class Largest:
    """The largest node of a cluster in each respect."""

    cpu: int
    memory: int
    gpus: int


def fits(ask: Ask, left: Left) -> NDArray[np.bool_]:
    """Where there is enough of everything."""
    enough = (left.cpu >= ask.cpu) & (left.memory >= ask.memory)
    if ask.gpus:
        enough &= (left.gpus >= ask.milli).sum(axis=1) >= ask.gpus
    return enough


def tightest_devices(ask: Ask, left: Left) -> NDArray[np.intp]:
    """Which devices of each node a pod is given: those on which least remains."""
    if not ask.gpus:
        return np.empty((len(left.gpus), 0), np.intp)
    free = np.where(left.gpus >= ask.milli, left.gpus, 2 * WHOLE)
    if ask.gpus == 1:
        return free.argmin(axis=1)[:, None]
    return free.argsort(axis=1, kind="stable")[:, : ask.gpus]


class Worth:
    """The tables of one demand."""

    def __init__(self, demand: Demand, largest: Largest) -> None:
        self.largest = largest
        self._unit = max(1, -(-largest.cpu // _COLUMNS))
        self._cpu_of_memory = _cpu_of_memory(demand, largest)
        self._holes, self._whole = _tables(tuple(_typical(demand, self._unit)), largest.gpus)
        self._broken = _broken(demand, largest.gpus)

    def of(self, left: Left) -> Floats:
        """The worth of nodes in milli."""
        # Pods that others placed may take more than there was.
        gpus = np.maximum(left.gpus, 0)
        host = np.minimum(left.cpu, left.memory * self._cpu_of_memory).clip(0) / self._unit
        # A node that came later may have more devices than any had.
        whole = np.minimum(_summed(gpus == WHOLE), self.largest.gpus)
        per_milli = host / np.maximum(_summed(gpus), 1)
        columns = np.minimum(gpus * per_milli[:, None], _COLUMNS).astype(np.intp)
        worth = self._holes[gpus // _STEP, columns].sum(axis=1)
        columns = np.minimum(whole * WHOLE * per_milli, _COLUMNS).astype(np.intp)
        return worth + self._whole[whole, columns] - self._broken[whole]

    def waste(self, ask: Ask, left: Left, prices: Floats | None = None) -> Floats:
        """Milli that will not be used any more for each device asked for, if a pod is put on nodes
        that it fits on; `prices` are those of the nodes' models (see `Demand.prices`)."""
        after = left.after(ask, tightest_devices(ask, left))
        before_and_after = self.of(left.with_more(after))
        lost = before_and_after[: len(left.cpu)] - before_and_after[len(left.cpu) :]
        lost += _LOOSENESS * self._looseness(after) - ask.amount
        if prices is not None:
            lost += _SCARCITY * ask.amount * prices
        return lost / max(ask.gpus, 1)

    def _looseness(self, left: Left) -> Floats:
        largest = self.largest
        gpus = _summed(left.gpus) / max(1, WHOLE * largest.gpus)
        return gpus + left.cpu / max(1, largest.cpu) + left.memory / max(1, largest.memory)


def _summed(devices: NDArray[np.generic]) -> Ints:
    """The sum over the devices of each node. As a product it takes a tenth of the time, and is
    exact: no node has so many devices that a float could not count their milli."""
    ones = np.ones(devices.shape[1], np.float32)
    return (devices.astype(np.float32) @ ones).astype(np.int64)


def score(waste: Floats) -> Floats:
    """0 to 100, 50 where nothing is wasted; equal steps of waste count less the larger it is."""
    return 50.0 * (1.0 - waste / (np.abs(waste) + _SOFTNESS))


@dataclass(frozen=True, slots=True)
class _Typical:
    """An ask as the tables see it: columns of CPU, GPUs, steps of a device, milli, weight."""

    columns: int
    gpus: int
    steps: int
    amount: int
    weight: float


def _typical(demand: Demand, unit: int) -> list[_Typical]:
    groups: dict[tuple[int, int, int], float] = {}
    for ask, weight in demand.weights.items():
        if ask.gpus:
            key = (-(-ask.cpu // unit), ask.gpus, -(-ask.milli // _STEP))
            groups[key] = groups.get(key, 0.0) + weight
    most = sorted(groups.items(), key=lambda each: (-each[1] * each[0][1], each[0]))[:_TYPICAL]
    return [
        _Typical(columns, gpus, steps, gpus * steps * _STEP, weight)
        for (columns, gpus, steps), weight in most
    ]


def _cpu_of_memory(demand: Demand, largest: Largest) -> float:
    """CPU that pods with GPUs ask for with each byte: memory counts as the CPU that it goes with,
    and a node is as good as the scarcer of both. Where nobody asks for memory, little is enough."""
    asks = [(ask, weight) for ask, weight in demand.weights.items() if ask.gpus]
    memory = sum(ask.memory * weight for ask, weight in asks)
    return sum(ask.cpu * weight for ask, weight in asks) / memory if memory else float(largest.cpu)


@lru_cache(maxsize=8)
def _tables(asks: tuple[_Typical, ...], most: int) -> tuple[Floats, Floats]:
    """`holes` and `whole`. Nodes come and go more often than what is asked for changes."""
    holes = _holes(asks)
    whole = _whole(asks, holes, most)
    # What is asked of `holes` afterwards are partly used devices only.
    holes[-1] = 0.0
    return holes, whole


def _holes(asks: Sequence[_Typical]) -> Floats:
    """Worth of a device by steps left of it and columns of CPU."""
    shares = [ask for ask in asks if ask.gpus == 1 and ask.steps * _STEP < WHOLE]
    table = np.zeros((WHOLE // _STEP + 1, _COLUMNS + 1))
    for steps in range(1, len(table)):
        fitting = [ask for ask in shares if ask.steps <= steps and ask.columns <= _COLUMNS]
        options = np.full((len(fitting), _COLUMNS + 1), -1.0)
        for option, ask in zip(options, fitting, strict=True):
            rest = table[steps - ask.steps, : _COLUMNS + 1 - ask.columns]
            option[ask.columns :] = ask.amount + rest
        table[steps] = _awaited(options, fitting, _PATIENCE)
    return table


def _awaited(options: Floats, asks: list[_Typical], patience: float) -> Floats:
    """Mean of the best options for each column, where those are taken that are better than going on
    to wait; an option below 0 is none."""
    if not asks:
        return np.zeros(_COLUMNS + 1)
    order = np.argsort(-options, axis=0, kind="stable")
    values = np.take_along_axis(options, order, axis=0)
    weights = np.where(values >= 0, np.array([ask.weight for ask in asks])[order], 0.0)
    mean = np.cumsum(weights * values, axis=0) / (np.cumsum(weights, axis=0) + patience)
    return mean.max(axis=0).clip(0.0)


def _whole(asks: Sequence[_Typical], holes: Floats, most: int) -> Floats:
    """Worth of so many untouched devices by columns of CPU: whoever comes next takes of them, be it
    a share, until nobody fits."""
    table = np.zeros((most + 1, _COLUMNS + 1))
    for number in range(1, most + 1):
        total = np.zeros(_COLUMNS + 1)
        weights = np.zeros(_COLUMNS + 1)
        for ask in asks:
            if ask.gpus > number or ask.columns > _COLUMNS:
                continue
            left = np.arange(_COLUMNS + 1 - ask.columns)
            # Of several shares alike, too, each is on a device of its own.
            rest = ask.gpus * (len(holes) - 1 - ask.steps)
            untouched = (number - ask.gpus) * (len(holes) - 1)
            with_rest = left * rest // max(rest + untouched, 1)
            worth = ask.amount + table[number - ask.gpus, left - with_rest]
            worth += ask.gpus * holes[rest // ask.gpus, with_rest // ask.gpus]
            total[ask.columns :] += ask.weight * worth
            weights[ask.columns :] += ask.weight
        table[number] = np.divide(total, weights, out=total, where=weights > 0)
    return table


def _broken(demand: Demand, most: int) -> Floats:
    """Milli of so many untouched devices that asks for several cannot use, by their part of all
    devices that are asked for."""
    number = np.arange(most + 1)
    broken = np.zeros(most + 1)
    amount = max(demand.amount(), 1e-9)
    for ask, weight in demand.weights.items():
        if ask.gpus > 1:
            broken += _BREAKING * WHOLE * (weight * ask.amount / amount) * (number % ask.gpus)
    return broken
