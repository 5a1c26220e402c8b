"""Tasks arrive and are placed by a policy, which never revises a placement unless it may
migrate.
"""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.packing.traces import OVERLOAD, TraceNodes
from kilonova.scheduler.core.consolidation.pod_migration import (
    EquivalentPods,
    PodMigration,
    find_best_migration,
)
from kilonova.scheduler.core.scoring.demand import PackingRequest
from kilonova.scheduler.core.scoring.fragmentation import (
    Floats,
    FragmentationModel,
    FreeResources,
    find_fitting,
    select_tightest_devices,
)

Rows = NDArray[np.intp]

ARRIVALS_PER_MOVE = 100
_MIN_GAIN_MILLI = 30.0
"""The gain in GPU milli for which a task is migrated."""


class NodePolicy(Protocol):
    """Scores nodes for a task."""

    def on_arrival(self, request: PackingRequest) -> bool:
        """Called for each arriving task; returns whether earlier scores are invalid."""
        ...

    def score_nodes(self, request: PackingRequest, free: FreeResources, rows: Rows) -> Floats:
        """The smallest score is best, the first of equals; `free` are the free resources of these
        rows, on all of which the task fits.
        """
        ...

    def select_devices(self, request: PackingRequest, free: FreeResources) -> NDArray[np.intp]:
        """The devices of one node that the task gets."""
        ...


class MovingPolicy(NodePolicy, Protocol):
    """A policy with a value of nodes, by which tasks are migrated."""

    @property
    def node_value(self) -> FragmentationModel: ...


@dataclass(frozen=True, slots=True)
class UtilizationResult:
    """Percent of the GPUs in use when 100 and 130 percent of them were requested."""

    at_100: float
    at_130: float
    moves: int = 0


@dataclass(slots=True)
class _NodeScores:
    values: Floats
    changes_seen: int = 0
    """How much of the log of changed rows they include."""


@dataclass(slots=True)
class _PlacedTasks:
    """Placed tasks with the same request."""

    rows: list[int] = field(default_factory=list[int])
    devices: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])


class SimulatedCluster:
    """The nodes with their free resources."""

    def __init__(self, nodes: TraceNodes, policy: NodePolicy) -> None:
        self.nodes = nodes
        left = nodes.free
        self.free = FreeResources(left.cpu.copy(), left.memory.copy(), left.gpus.copy())
        self.pods: dict[PackingRequest, _PlacedTasks] = {}
        self._policy = policy
        self._scores: dict[PackingRequest, _NodeScores] = {}
        self._model_matches: dict[frozenset[str], NDArray[np.bool_]] = {}
        self._changed_rows: list[int] = []

    def place_task(self, request: PackingRequest) -> bool:
        """Place a task; returns whether a node was found."""
        if self._policy.on_arrival(request):
            self._scores.clear()
        keys = self._refresh_scores(request)
        row = int(keys.argmin())
        if np.isinf(keys[row]):
            return False
        devices = self._policy.select_devices(request, self.free.select_rows(np.array([row])))[0]
        self._place_on(request, row, tuple(devices.tolist()))
        return True

    def move_task(self, node_value: FragmentationModel, min_gain: float) -> bool:
        """Migrate the task with the greatest gain; returns whether there was one."""
        placed = [
            EquivalentPods(request, np.array(pods.rows, np.intp), np.array(pods.devices, np.intp))
            for request, pods in self.pods.items()
            if request.is_shared and pods.rows
        ]
        found = find_best_migration(node_value, self.free, placed, self.match_model, min_gain)
        if found is not None:
            self._apply_move(found)
        return found is not None

    def match_model(self, request: PackingRequest) -> NDArray[np.bool_]:
        """Nodes with a suitable GPU model."""
        found = self._model_matches.get(request.models)
        if found is None:
            suits = [not request.models or model in request.models for model in self.nodes.models]
            found = self._model_matches[request.models] = np.array(suits)
        return found

    def _apply_move(self, move: PodMigration) -> None:
        pods = self.pods[move.request]
        row, devices = pods.rows.pop(move.index), pods.devices.pop(move.index)
        self._adjust_free(move.request, row, devices, 1)
        self._place_on(move.request, move.row, move.devices)

    def _place_on(self, request: PackingRequest, row: int, devices: tuple[int, ...]) -> None:
        self._adjust_free(request, row, devices, -1)
        pods = self.pods.setdefault(request, _PlacedTasks())
        pods.rows.append(row)
        pods.devices.append(devices)

    def _adjust_free(
        self, request: PackingRequest, row: int, devices: tuple[int, ...], sign: int
    ) -> None:
        self.free.cpu[row] += sign * request.cpu
        self.free.memory[row] += sign * request.memory
        for device in devices:
            self.free.gpus[row, device] += sign * request.milli
        self._changed_rows.append(row)

    def _refresh_scores(self, request: PackingRequest) -> Floats:
        """Scores of all rows, recomputed where free resources changed."""
        known = self._scores.get(request)
        if known is None:
            known = self._scores[request] = _NodeScores(np.empty(len(self.nodes.models)))
            rows = np.arange(len(known.values))
        else:
            rows = np.array(sorted(set(self._changed_rows[known.changes_seen :])), np.intp)
        known.changes_seen = len(self._changed_rows)
        left = self.free.select_rows(rows)
        able = find_fitting(request, left)
        if request.gpus:
            able &= self.match_model(request)[rows]
        known.values[rows] = np.inf
        if able.any():
            rows = rows[able]
            known.values[rows] = self._policy.score_nodes(
                request, self.free.select_rows(rows), rows
            )
        return known.values


class TightestDevices:
    """Shared by most policies: they learn nothing, and select the devices with the least remaining
    capacity.
    """

    def on_arrival(self, request: PackingRequest) -> bool:
        return False

    def select_devices(self, request: PackingRequest, free: FreeResources) -> NDArray[np.intp]:
        return select_tightest_devices(request, free)


def simulate(
    nodes: TraceNodes,
    tasks: list[PackingRequest],
    policy: NodePolicy,
    moving_policy: MovingPolicy | None = None,
) -> UtilizationResult:
    """Simulate all arrivals; with a moving policy, one migration for every hundred arrivals."""
    cluster = SimulatedCluster(nodes, policy)
    capacity = nodes.capacity
    requested = used = budget = moves = 0
    at_100: float | None = None
    for number, request in enumerate(tasks, 1):
        requested += request.gpu_milli
        if cluster.place_task(request):
            used += request.gpu_milli
        if moving_policy is not None and number % ARRIVALS_PER_MOVE == 0:
            budget += 1
            while budget and cluster.move_task(moving_policy.node_value, _MIN_GAIN_MILLI):
                budget, moves = budget - 1, moves + 1
        if at_100 is None and requested >= capacity:
            at_100 = 100 * used / capacity
        if requested >= OVERLOAD * capacity:
            break
    at_130 = 100 * used / capacity
    return UtilizationResult(at_130 if at_100 is None else at_100, at_130, moves)
