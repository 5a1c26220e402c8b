"""How much free GPU capacity will remain usable, and where one more pod wastes least of it.

The **usable milli** of a node are the milli of its devices that will be used in the end, if pods
arrive according to the demand. Free capacity that will not be used is fragmentation. A pod goes
where it loses least usable capacity: fractions that no request fills are avoided, fractions that
add up to a whole device meet, and pods with a high CPU request go where CPU outlasts the devices.
The idea is that of fragmentation gradient descent (FGD).

Two tables are computed once per demand: the value of a partly used device by what is left of it and
by its part of the CPU, and the value of a number of untouched devices with their CPU. A node
divides its CPU among its devices in proportion to what is left of them. A free fraction may be held
for the request that fills it best, but not if that request is rare (`_RARE_REQUEST_WEIGHT`). A
score is then a few look-ups per row, whatever the number of distinct requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.scoring.demand import Demand, PackingRequest

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_CPU_STEPS = 64
"""Steps of CPU in the tables."""
_MILLI_STEP = 10
"""Milli per step of what is left of a device."""
_MAX_TYPICAL_REQUESTS = 32
"""Number of distinct requests in the tables: those with most GPUs in total."""
_RARE_REQUEST_WEIGHT = 0.01
"""Requests with this weight fill half of the free fractions that fit them best."""
_SPLIT_NODE_WEIGHT = 0.02
"""Weight of devices that multi-GPU requests cannot use on a node with too few left."""
_EMPTY_NODE_PENALTY = 30.0
"""Milli by which an empty node is worse than a full one, all else being equal: empty nodes stay
empty."""
_SCARCITY_WEIGHT = 0.4
"""Weight of the scarcity of a model."""
_HALF_SCORE_WASTE = 50.0
"""Wasted milli per device at which the score has lost half of the distance to 0."""


@dataclass(frozen=True, slots=True)
class FreeResources:
    """What is free on nodes: CPU in milli, memory in bytes, milli of each device."""

    cpu: Ints
    memory: Ints
    gpus: NDArray[np.int16]

    def select_rows(self, rows: NDArray[np.intp]) -> "FreeResources":
        return FreeResources(self.cpu[rows], self.memory[rows], self.gpus[rows])

    def concatenate(self, other: "FreeResources") -> "FreeResources":
        return FreeResources(
            np.concatenate((self.cpu, other.cpu)),
            np.concatenate((self.memory, other.memory)),
            np.concatenate((self.gpus, other.gpus)),
        )

    def after_placing(self, request: PackingRequest, devices: NDArray[np.intp]) -> "FreeResources":
        """What is free with one more pod on each node, using these devices."""
        gpus = self.gpus
        if request.gpus:
            gpus = gpus.copy()
            rows = np.arange(len(gpus))[:, None]
            gpus[rows, devices] -= request.milli
        return FreeResources(self.cpu - request.cpu, self.memory - request.memory, gpus)


@dataclass(frozen=True, slots=True)
class LargestNode:
    """The maximum over the nodes of a cluster of each resource."""

    cpu: int
    memory: int
    gpus: int


def find_fitting(request: PackingRequest, free: FreeResources) -> NDArray[np.bool_]:
    """Rows with enough of every resource."""
    enough = (free.cpu >= request.cpu) & (free.memory >= request.memory)
    if request.gpus:
        enough &= (free.gpus >= request.milli).sum(axis=1) >= request.gpus
    return enough


def select_tightest_devices(request: PackingRequest, resources: FreeResources) -> NDArray[np.intp]:
    """The devices that a pod would get on each node: those with least left afterwards."""
    if not request.gpus:
        return np.empty((len(resources.gpus), 0), np.intp)
    free = np.where(resources.gpus >= request.milli, resources.gpus, 2 * MILLI_PER_GPU)
    if request.gpus == 1:
        return free.argmin(axis=1)[:, None]
    return free.argsort(axis=1, kind="stable")[:, : request.gpus]


class FragmentationModel:
    """The tables for one demand."""

    def __init__(self, demand: Demand, largest: LargestNode) -> None:
        self.largest = largest
        self._cpu_step = max(1, -(-largest.cpu // _CPU_STEPS))
        self._cpu_per_byte = _cpu_per_byte(demand, largest)
        self._partial_device_values, self._whole_device_values = _build_tables(
            tuple(_select_typical_requests(demand, self._cpu_step)), largest.gpus
        )
        self._split_node_losses = _build_split_node_losses(demand, largest.gpus)

    def usable_milli(self, free: FreeResources) -> Floats:
        """The usable milli of nodes."""
        # Pods bound by other schedulers may exceed the capacity.
        gpus = np.maximum(free.gpus, 0)
        host = np.minimum(free.cpu, free.memory * self._cpu_per_byte).clip(0) / self._cpu_step
        # A node added later may have more devices than the largest at construction.
        whole = np.minimum(_sum_devices(gpus == MILLI_PER_GPU), self.largest.gpus)
        per_milli = host / np.maximum(_sum_devices(gpus), 1)
        columns = np.minimum(gpus * per_milli[:, None], _CPU_STEPS).astype(np.intp)
        value = self._partial_device_values[gpus // _MILLI_STEP, columns].sum(axis=1)
        columns = np.minimum(whole * MILLI_PER_GPU * per_milli, _CPU_STEPS).astype(np.intp)
        return value + self._whole_device_values[whole, columns] - self._split_node_losses[whole]

    def wasted_milli(
        self, request: PackingRequest, free: FreeResources, prices: Floats | None = None
    ) -> Floats:
        """Milli that become unusable, per requested device, if a pod is placed on nodes that it
        fits on; `prices` is the scarcity of the nodes' models (see `Demand.model_scarcity`)."""
        after = free.after_placing(request, select_tightest_devices(request, free))
        before_and_after = self.usable_milli(free.concatenate(after))
        lost = before_and_after[: len(free.cpu)] - before_and_after[len(free.cpu) :]
        lost += _EMPTY_NODE_PENALTY * self._emptiness(after) - request.gpu_milli
        if prices is not None:
            lost += _SCARCITY_WEIGHT * request.gpu_milli * prices
        return lost / max(request.gpus, 1)

    def _emptiness(self, free: FreeResources) -> Floats:
        largest = self.largest
        gpus = _sum_devices(free.gpus) / max(1, MILLI_PER_GPU * largest.gpus)
        return gpus + free.cpu / max(1, largest.cpu) + free.memory / max(1, largest.memory)


def _sum_devices(devices: NDArray[np.generic]) -> Ints:
    """The sum over the devices of each node. A matrix product takes a tenth of the time, and is
    exact: the milli of one node are well within the precision of a float."""
    ones = np.ones(devices.shape[1], np.float32)
    return (devices.astype(np.float32) @ ones).astype(np.int64)


def score_waste(waste: Floats) -> Floats:
    """A score of 0 to 100, 50 without waste; its slope decreases with the amount of waste."""
    return 50.0 * (1.0 - waste / (np.abs(waste) + _HALF_SCORE_WASTE))


@dataclass(frozen=True, slots=True)
class _TypicalRequest:
    """A request in the units of the tables: columns of CPU, GPUs, steps of a device, milli,
    weight."""

    columns: int
    gpus: int
    steps: int
    amount: int
    weight: float


def _select_typical_requests(demand: Demand, cpu_step: int) -> list[_TypicalRequest]:
    groups: dict[tuple[int, int, int], float] = {}
    for request, weight in demand.weights.items():
        if request.gpus:
            key = (-(-request.cpu // cpu_step), request.gpus, -(-request.milli // _MILLI_STEP))
            groups[key] = groups.get(key, 0.0) + weight
    most = sorted(groups.items(), key=lambda each: (-each[1] * each[0][1], each[0]))[
        :_MAX_TYPICAL_REQUESTS
    ]
    return [
        _TypicalRequest(columns, gpus, steps, gpus * steps * _MILLI_STEP, weight)
        for (columns, gpus, steps), weight in most
    ]


def _cpu_per_byte(demand: Demand, largest: LargestNode) -> float:
    """CPU that pods with GPUs request per byte of memory: memory is converted into the CPU that it
    usually goes with, and the scarcer of both counts. Without memory requests, any amount is
    enough."""
    requests = [(request, weight) for request, weight in demand.weights.items() if request.gpus]
    memory = sum(request.memory * weight for request, weight in requests)
    return (
        sum(request.cpu * weight for request, weight in requests) / memory
        if memory
        else float(largest.cpu)
    )


@lru_cache(maxsize=8)
def _build_tables(requests: tuple[_TypicalRequest, ...], max_devices: int) -> tuple[Floats, Floats]:
    """The tables of partly used and of untouched devices, cached: nodes change more often than the
    demand."""
    holes = _build_partial_device_table(requests)
    whole = _build_whole_device_table(requests, holes, max_devices)
    # Untouched devices are in the other table.
    holes[-1] = 0.0
    return holes, whole


def _build_partial_device_table(requests: Sequence[_TypicalRequest]) -> Floats:
    """Usable milli of a device by steps left of it and columns of CPU."""
    shares = [
        request
        for request in requests
        if request.gpus == 1 and request.steps * _MILLI_STEP < MILLI_PER_GPU
    ]
    table = np.zeros((MILLI_PER_GPU // _MILLI_STEP + 1, _CPU_STEPS + 1))
    for steps in range(1, len(table)):
        fitting = [
            request
            for request in shares
            if request.steps <= steps and request.columns <= _CPU_STEPS
        ]
        options = np.full((len(fitting), _CPU_STEPS + 1), -1.0)
        for option, request in zip(options, fitting, strict=True):
            rest = table[steps - request.steps, : _CPU_STEPS + 1 - request.columns]
            option[request.columns :] = request.amount + rest
        table[steps] = _expected_best(options, fitting, _RARE_REQUEST_WEIGHT)
    return table


def _expected_best(options: Floats, requests: list[_TypicalRequest], rare_weight: float) -> Floats:
    """Expected value of the best options for each column: an option is used only if it is better
    than waiting for another. A negative option is infeasible."""
    if not requests:
        return np.zeros(_CPU_STEPS + 1)
    order = np.argsort(-options, axis=0, kind="stable")
    values = np.take_along_axis(options, order, axis=0)
    weights = np.where(values >= 0, np.array([request.weight for request in requests])[order], 0.0)
    mean = np.cumsum(weights * values, axis=0) / (np.cumsum(weights, axis=0) + rare_weight)
    return mean.max(axis=0).clip(0.0)


def _build_whole_device_table(
    requests: Sequence[_TypicalRequest], partial_values: Floats, max_devices: int
) -> Floats:
    """Usable milli of a number of untouched devices by columns of CPU: the next request that fits,
    even of a fraction, takes some of them, until none fits."""
    table = np.zeros((max_devices + 1, _CPU_STEPS + 1))
    for number in range(1, max_devices + 1):
        total = np.zeros(_CPU_STEPS + 1)
        weights = np.zeros(_CPU_STEPS + 1)
        for request in requests:
            if request.gpus > number or request.columns > _CPU_STEPS:
                continue
            left = np.arange(_CPU_STEPS + 1 - request.columns)
            # Equal fractions of one request are on different devices.
            rest = request.gpus * (len(partial_values) - 1 - request.steps)
            untouched = (number - request.gpus) * (len(partial_values) - 1)
            with_rest = left * rest // max(rest + untouched, 1)
            value = request.amount + table[number - request.gpus, left - with_rest]
            value += request.gpus * partial_values[rest // request.gpus, with_rest // request.gpus]
            total[request.columns :] += request.weight * value
            weights[request.columns :] += request.weight
        table[number] = np.divide(total, weights, out=total, where=weights > 0)
    return table


def _build_split_node_losses(demand: Demand, max_devices: int) -> Floats:
    """Milli of a number of untouched devices that multi-GPU requests cannot use, weighted by their
    part of the GPUs requested."""
    number = np.arange(max_devices + 1)
    broken = np.zeros(max_devices + 1)
    amount = max(demand.mean_gpu_milli(), 1e-9)
    for request, weight in demand.weights.items():
        if request.gpus > 1:
            broken += (
                _SPLIT_NODE_WEIGHT
                * MILLI_PER_GPU
                * (weight * request.gpu_milli / amount)
                * (number % request.gpus)
            )
    return broken
