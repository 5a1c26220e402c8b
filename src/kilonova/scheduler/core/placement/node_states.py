"""Nodes by what is left of them, for a search that tries many choices.

Nodes in equal states, in the same domains and feasible for the same pods are one class: they are
interchangeable. The model covers resources, whole devices and fractions of devices; `can_model`
reports whether a shape needs more.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.requests import GpuPreference, GpuRequest, Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.placement.pod_order import PodOrder

NodeState = tuple[int, tuple[int, ...], tuple[int, ...]]
"""What is left of a node: idle devices, milli left of each shared device, and each resource."""

StateAfterPod = tuple[NodeState, tuple[int, ...]]
"""The state after placing a pod, and how much was free of each device of which it takes a
fraction."""


class NodeStates:
    """Classes of nodes, by number, for the pods of one gang."""

    def __init__(self, snapshot: Snapshot, order: PodOrder) -> None:
        self._snapshot = snapshot
        self._order = order
        shapes = [member.shape for member in order.kinds]
        self._names = sorted({n for each in shapes for n, amount in each.requests if amount > 0})
        self._amounts = [tuple(dict(s.requests).get(n, 0) for n in self._names) for s in shapes]
        self._gpu_requests = [shape.gpu for shape in shapes]
        self.rows: list[list[int]] = []
        """By class, its rows."""
        self.states: list[NodeState] = []
        self.domains: list[tuple[int, ...]] = []
        """By class, the domain of the level of each pod set."""
        self.usable_classes: list[list[int]] = []
        """By kind of pod, the feasible classes."""
        self._states_after: dict[tuple[int, NodeState], list[StateAfterPod]] = {}
        self._build_classes()

    def states_after(self, kind: int, state: NodeState) -> list[StateAfterPod]:
        """All ways in which a pod may use a node; empty if it does not fit."""
        found = self._states_after.get((kind, state))
        if found is None:
            found = self._states_after[kind, state] = list(
                _states_after(self._amounts[kind], self._gpu_requests[kind], state)
            )
        return found

    def _build_classes(self) -> None:
        order, labels = self._order, self._snapshot.labels
        used = np.unique(np.concatenate(order.feasible_rows))
        open_ = [np.isin(used, rows) for rows in order.feasible_rows]
        levels = list(dict.fromkeys(order.levels))
        codes = [labels.domains(level, used) for level in levels]
        facts = np.stack([*open_, *codes]).T
        classes: dict[object, int] = {}
        firsts: list[int] = []
        for position, state in enumerate(self._states_of(used)):
            key = state, facts[position].tobytes()
            number = classes.setdefault(key, len(self.rows))
            if number == len(self.rows):
                at = {level: int(codes[n][position]) for n, level in enumerate(levels)}
                self.rows.append([])
                self.states.append(state)
                self.domains.append(tuple(at[level] for level in order.levels))
                firsts.append(position)
            self.rows[number].append(int(used[position]))
        self.usable_classes = [np.flatnonzero(flags[firsts]).tolist() for flags in open_]

    def _states_of(self, rows: Rows) -> Iterator[NodeState]:
        """The state of each row. Amounts are capped at what all pods together request, so that more
        nodes are equal."""
        snapshot = self._snapshot
        amounts = [self._amounts[pod.kind] for pod in self._order.pods]
        most = np.array([sum(each) for each in zip(*amounts, strict=True)], np.int64)
        columns = [snapshot.column(name) for name in self._names]
        left = snapshot.allocatable[columns][:, rows] - snapshot.used[columns][:, rows]
        left = np.minimum(left, most[:, None])
        requests = [
            request
            for pod in self._order.pods
            if (request := self._gpu_requests[pod.kind]) is not None
        ]
        free, masks = snapshot.gpu_free[rows], snapshot.gpu_mask[rows]
        idle = snapshot.has_idle_device(rows).sum(axis=1) - snapshot.gpu_missing[rows]
        idle = np.clip(idle, 0, sum(request.count for request in requests))
        least = min((request.milli for request in requests), default=MILLI_PER_GPU)
        usable = snapshot.usable_gpu_milli(rows)
        is_shared = (masks == 0) & (free < MILLI_PER_GPU) & ~snapshot.gpu_withheld[rows]
        shared = np.where(is_shared & (usable >= least), usable, 0)
        shared.sort(axis=1)
        for devices, millis, some in zip(
            idle.tolist(), shared.tolist(), left.T.tolist(), strict=True
        ):
            yield devices, tuple(milli for milli in millis if milli), tuple(some)


def can_model(snapshot: Snapshot, shape: Shape, rows: Rows) -> bool:
    """Whether the model covers everything that decides where a shape fits."""
    if shape.pod_rules is not None or shape.claims:
        return False
    request = shape.gpu
    if request is None:
        return True
    if request.profile or not 0 < request.milli <= MILLI_PER_GPU or request.bandwidth:
        return False
    if request.share_memory:
        return False
    if request.preference is GpuPreference.NVLINK_REQUIRED and request.count > 1:
        return False
    return not (request.memory or request.models or request.architecture) or _is_uniform(
        snapshot, request, rows
    )


def _is_uniform(snapshot: Snapshot, request: GpuRequest, rows: Rows) -> bool:
    """Whether, on each layout, either all offered devices are eligible or none."""
    numbers: list[int] = np.unique(snapshot.layouts[rows]).tolist()
    for number in numbers:
        layout = snapshot.layout_of[number]
        offered = sum(1 << gpu.index for gpu in layout.gpus if gpu.is_offered)
        if layout.eligible_devices(request) not in (0, offered):
            return False
    return True


def _states_after(
    amounts: tuple[int, ...], request: GpuRequest | None, state: NodeState
) -> Iterator[StateAfterPod]:
    idle, shared, has = state
    left = tuple(one - requested for one, requested in zip(has, amounts, strict=True))
    if any(after < 0 and requested for after, requested in zip(left, amounts, strict=True)):
        return
    if request is None:
        yield (idle, shared, left), ()
    elif request.is_whole:
        if idle >= request.count:
            yield (idle - request.count, shared, left), ()
    else:
        feasible = [milli for milli in shared if milli >= request.milli]
        feasible += [MILLI_PER_GPU] * min(idle, request.count)
        for chosen in dict.fromkeys(combinations(feasible, request.count)):
            rest = list(shared)
            for milli in chosen:
                if milli < MILLI_PER_GPU:
                    rest.remove(milli)
            rest.extend(milli - request.milli for milli in chosen if milli > request.milli)
            yield (idle - chosen.count(MILLI_PER_GPU), tuple(sorted(rest)), left), chosen
