"""Nodes by what is left of them, for a search that tries many choices.

Nodes in the same state, that the same pods may use, in the same domains, are one class: nothing
tells them apart. Resources, whole devices and shares of devices are known here; who asks for
anything else is not (`knows`).
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from kilonova.scheduler.core.asks import GpuAsk, Preference, Shape
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.pod_order import PodOrder
from kilonova.scheduler.core.snapshot import Snapshot

State = tuple[int, tuple[int, ...], tuple[int, ...]]
"""What is left of a node: untouched devices, milli of each shared device, and each resource."""

Left = tuple[State, tuple[int, ...]]
"""What is left when a pod stands there, and how much was free of each device that it shares."""


class NodeStates:
    """Classes of nodes, by number, for the pods of one gang."""

    def __init__(self, snapshot: Snapshot, order: PodOrder) -> None:
        self._snapshot = snapshot
        self._order = order
        shapes = [member.shape for member in order.kinds]
        self._names = sorted({n for each in shapes for n, amount in each.requests if amount > 0})
        self._amounts = [tuple(dict(s.requests).get(n, 0) for n in self._names) for s in shapes]
        self._asks = [shape.gpu for shape in shapes]
        self.rows: list[list[int]] = []
        """By class, its rows."""
        self.states: list[State] = []
        self.domains: list[tuple[int, ...]] = []
        """By class, the domain of the level of each set of pods."""
        self.able: list[list[int]] = []
        """By kind of pod, the classes that it may use."""
        self._lefts: dict[tuple[int, State], list[Left]] = {}
        self._divide()

    def lefts(self, kind: int, state: State) -> list[Left]:
        """All ways in which a pod may use a node; none if it does not fit."""
        found = self._lefts.get((kind, state))
        if found is None:
            found = self._lefts[kind, state] = list(
                _lefts(self._amounts[kind], self._asks[kind], state)
            )
        return found

    def _divide(self) -> None:
        order, labels = self._order, self._snapshot.labels
        used = np.unique(np.concatenate(order.open))
        open_ = [np.isin(used, rows) for rows in order.open]
        levels = list(dict.fromkeys(order.levels))
        codes = [labels.domains(level, used) for level in levels]
        facts = np.stack([*open_, *codes]).T
        classes: dict[object, int] = {}
        firsts: list[int] = []
        for position, state in enumerate(self._states(used)):
            key = state, facts[position].tobytes()
            number = classes.setdefault(key, len(self.rows))
            if number == len(self.rows):
                at = {level: int(codes[n][position]) for n, level in enumerate(levels)}
                self.rows.append([])
                self.states.append(state)
                self.domains.append(tuple(at[level] for level in order.levels))
                firsts.append(position)
            self.rows[number].append(int(used[position]))
        self.able = [np.flatnonzero(flags[firsts]).tolist() for flags in open_]

    def _states(self, rows: Rows) -> Iterator[State]:
        """More than all pods together ask for is as good as just that."""
        snapshot = self._snapshot
        amounts = [self._amounts[pod.kind] for pod in self._order.pods]
        most = np.array([sum(each) for each in zip(*amounts, strict=True)], np.int64)
        columns = [snapshot.column(name) for name in self._names]
        left = snapshot.allocatable[columns][:, rows] - snapshot.used[columns][:, rows]
        left = np.minimum(left, most[:, None])
        asks = [ask for pod in self._order.pods if (ask := self._asks[pod.kind]) is not None]
        free, masks = snapshot.gpu_free[rows], snapshot.gpu_mask[rows]
        idle = ((free == WHOLE) & (masks == 0)).sum(axis=1) - snapshot.gpu_missing[rows]
        idle = np.clip(idle, 0, sum(ask.count for ask in asks))
        least = min((ask.milli for ask in asks), default=WHOLE)
        shared = np.where((masks == 0) & (free < WHOLE) & (free >= least), free, 0)
        shared.sort(axis=1)
        for devices, millis, some in zip(
            idle.tolist(), shared.tolist(), left.T.tolist(), strict=True
        ):
            yield devices, tuple(milli for milli in millis if milli), tuple(some)


def knows(snapshot: Snapshot, shape: Shape, rows: Rows) -> bool:
    """Whether all that says where a shape may stand is known here."""
    if shape.peers is not None or shape.claims:
        return False
    ask = shape.gpu
    if ask is None:
        return True
    if ask.profile or not 0 < ask.milli <= WHOLE or ask.bandwidth:
        return False
    if ask.preference is Preference.NVLINK_REQUIRED and ask.count > 1:
        return False
    return not (ask.memory or ask.models or ask.architecture) or _is_uniform(snapshot, ask, rows)


def _is_uniform(snapshot: Snapshot, ask: GpuAsk, rows: Rows) -> bool:
    """Whether all healthy devices of a node will do, or none of them, wherever there are some."""
    numbers: list[int] = np.unique(snapshot.layouts[rows]).tolist()
    for number in numbers:
        layout = snapshot.layout_of[number]
        healthy = sum(1 << gpu.index for gpu in layout.gpus if gpu.healthy)
        if layout.eligible(ask) not in (0, healthy):
            return False
    return True


def _lefts(amounts: tuple[int, ...], ask: GpuAsk | None, state: State) -> Iterator[Left]:
    idle, shared, has = state
    left = tuple(one - asked for one, asked in zip(has, amounts, strict=True))
    if any(after < 0 and asked for after, asked in zip(left, amounts, strict=True)):
        return
    if ask is None:
        yield (idle, shared, left), ()
    elif ask.whole:
        if idle >= ask.count:
            yield (idle - ask.count, shared, left), ()
    else:
        able = [milli for milli in shared if milli >= ask.milli]
        able += [WHOLE] * min(idle, ask.count)
        for chosen in dict.fromkeys(combinations(able, ask.count)):
            rest = list(shared)
            for milli in chosen:
                if milli < WHOLE:
                    rest.remove(milli)
            rest.extend(milli - ask.milli for milli in chosen if milli > ask.milli)
            yield (idle - chosen.count(WHOLE), tuple(sorted(rest)), left), chosen
