"""Tasks arrive and are placed by a policy, which never looks back; unless it may move some."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bench.packing.traces import OVERLOAD, Nodes
from kilonova.scheduler.core.demand import Ask
from kilonova.scheduler.core.fragments import Floats, Left, Worth, fits, tightest_devices
from kilonova.scheduler.core.moving import Move, Standing, best_move

Rows = NDArray[np.intp]

ARRIVALS_PER_MOVE = 100
_LEAST_GAIN = 30.0
"""Milli for which a task is moved."""


class Policy(Protocol):
    """Orders nodes for a task."""

    def arrived(self, ask: Ask) -> bool:
        """A task has arrived; whether what was said about nodes before holds no more."""
        ...

    def keys(self, ask: Ask, left: Left, rows: Rows) -> Floats:
        """The smallest is best, of equals the first; `left` is what is free on these rows, all of
        which the task fits on."""
        ...

    def devices(self, ask: Ask, left: Left) -> NDArray[np.intp]:
        """What the task is given of one node."""
        ...


class Mover(Policy, Protocol):
    """A policy that knows what nodes are worth."""

    @property
    def worth(self) -> Worth: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """Percent of the GPUs in use when all of them, and 1.3 times all, had been asked for."""

    at_100: float
    at_130: float
    moves: int = 0


@dataclass(slots=True)
class _Keys:
    values: Floats
    seen: int = 0
    """How much of the log of changed rows they know."""


@dataclass(slots=True)
class _Pods:
    """Tasks with one ask, where they stand."""

    rows: list[int] = field(default_factory=list[int])
    devices: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])


class Board:
    """Nodes as they fill."""

    def __init__(self, nodes: Nodes, policy: Policy) -> None:
        self.nodes = nodes
        left = nodes.left
        self.left = Left(left.cpu.copy(), left.memory.copy(), left.gpus.copy())
        self.pods: dict[Ask, _Pods] = {}
        self._policy = policy
        self._keys: dict[Ask, _Keys] = {}
        self._admitted: dict[frozenset[str], NDArray[np.bool_]] = {}
        self._changed: list[int] = []

    def place(self, ask: Ask) -> bool:
        """Puts a task on a node; says whether there was one."""
        if self._policy.arrived(ask):
            self._keys.clear()
        keys = self._fresh(ask)
        row = int(keys.argmin())
        if np.isinf(keys[row]):
            return False
        given = self._policy.devices(ask, self.left.at(np.array([row])))[0]
        self._put(ask, row, tuple(given.tolist()))
        return True

    def move(self, worth: Worth, least: float) -> bool:
        """Moves the task for which that is worth most; says whether there was one."""
        standing = [
            Standing(ask, np.array(pods.rows, np.intp), np.array(pods.devices, np.intp))
            for ask, pods in self.pods.items()
            if ask.shares and pods.rows
        ]
        found = best_move(worth, self.left, standing, self.admitted, least)
        if found is not None:
            self._carry_out(found)
        return found is not None

    def admitted(self, ask: Ask) -> NDArray[np.bool_]:
        """Nodes of a model that will do."""
        found = self._admitted.get(ask.models)
        if found is None:
            suits = [not ask.models or model in ask.models for model in self.nodes.models]
            found = self._admitted[ask.models] = np.array(suits)
        return found

    def _carry_out(self, move: Move) -> None:
        pods = self.pods[move.ask]
        row, devices = pods.rows.pop(move.index), pods.devices.pop(move.index)
        self._count(move.ask, row, devices, 1)
        self._put(move.ask, move.row, move.devices)

    def _put(self, ask: Ask, row: int, devices: tuple[int, ...]) -> None:
        self._count(ask, row, devices, -1)
        pods = self.pods.setdefault(ask, _Pods())
        pods.rows.append(row)
        pods.devices.append(devices)

    def _count(self, ask: Ask, row: int, devices: tuple[int, ...], sign: int) -> None:
        self.left.cpu[row] += sign * ask.cpu
        self.left.memory[row] += sign * ask.memory
        for device in devices:
            self.left.gpus[row, device] += sign * ask.milli
        self._changed.append(row)

    def _fresh(self, ask: Ask) -> Floats:
        """Keys of all rows, worked out anew where something changed."""
        known = self._keys.get(ask)
        if known is None:
            known = self._keys[ask] = _Keys(np.empty(len(self.nodes.models)))
            rows = np.arange(len(known.values))
        else:
            rows = np.array(sorted(set(self._changed[known.seen :])), np.intp)
        known.seen = len(self._changed)
        left = self.left.at(rows)
        able = fits(ask, left)
        if ask.gpus:
            able &= self.admitted(ask)[rows]
        known.values[rows] = np.inf
        if able.any():
            rows = rows[able]
            known.values[rows] = self._policy.keys(ask, self.left.at(rows), rows)
        return known.values


class Tight:
    """What most policies have in common: they learn nothing, and give devices on which least
    remains."""

    def arrived(self, ask: Ask) -> bool:
        return False

    def devices(self, ask: Ask, left: Left) -> NDArray[np.intp]:
        return tightest_devices(ask, left)


def play(nodes: Nodes, tasks: list[Ask], policy: Policy, mover: Mover | None = None) -> Outcome:
    """All tasks, one after the other; with a mover, one move for every hundred arrivals."""
    board = Board(nodes, policy)
    capacity = nodes.capacity
    asked = used = budget = moves = 0
    at_100: float | None = None
    for number, ask in enumerate(tasks, 1):
        asked += ask.amount
        if board.place(ask):
            used += ask.amount
        if mover is not None and number % ARRIVALS_PER_MOVE == 0:
            budget += 1
            while budget and board.move(mover.worth, _LEAST_GAIN):
                budget, moves = budget - 1, moves + 1
        if at_100 is None and asked >= capacity:
            at_100 = 100 * used / capacity
        if asked >= OVERLOAD * capacity:
            break
    at_130 = 100 * used / capacity
    return Outcome(at_130 if at_100 is None else at_100, at_130, moves)
