"""Where a shape may stand at all, whatever is used just now: a reason for each node, or none.

The order of the filters is the order in which a node's reason is looked for: what the node's GPUs
are comes first, then what Kubernetes lets a pod say.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from kilonova.scheduler.core.asks import GpuAsk, Shape
from kilonova.scheduler.core.labels import NAME, Flags, Rows
from kilonova.scheduler.core.snapshot import GPU, Snapshot, mig_resource
from kilonova.scheduler.core.taints import intolerable, tolerates

Reasons = NDArray[np.int8]


class Reason(IntEnum):
    """Why a node will not do for a shape."""

    FITS = 0
    GONE = 1
    GPU_COUNT = 2
    GPU_MEMORY = 3
    GPU_MODEL = 4
    ARCHITECTURE = 5
    MIG = 6
    RESOURCES = 7
    TAINT = 8
    SELECTOR = 9
    AFFINITY = 10
    AVOIDED = 11
    SPREAD = 12
    POD_AFFINITY = 13
    POD_ANTI_AFFINITY = 14
    REPELLED = 15
    """Pods that stand there want the newcomer away."""
    VOLUME_IN_USE = 16
    CLAIM_ELSEWHERE = 17
    """Devices of its claims are for other nodes."""
    NO_DEVICES = 18
    """The node has no devices such as its claims ask for."""


def reasons(snapshot: Snapshot, shape: Shape, rows: Rows) -> Reasons:
    """For each row the first reason against it, `FITS` if there is none."""
    found = np.zeros(len(rows), np.int8)
    _object(found, ~snapshot.alive[rows], Reason.GONE)
    if shape.gpu is not None:
        _judge_gpus(snapshot, shape.gpu, rows, found)
    columns, amounts = snapshot.request(shape)
    for column, amount in zip(columns.tolist(), amounts.tolist(), strict=True):
        _object(found, snapshot.allocatable[column, rows] < amount, Reason.RESOURCES)
    _object(found, ~tolerated(snapshot, shape, rows), Reason.TAINT)
    if shape.selector:
        _object(found, ~snapshot.labels.equal(shape.selector, rows), Reason.SELECTOR)
    for terms in shape.one_of:
        _object(found, ~snapshot.labels.any_holds(terms, rows), Reason.AFFINITY)
    if shape.avoided:
        names = snapshot.labels.column(NAME)
        codes = [names.code(name) for name in shape.avoided]
        _object(found, np.isin(names.codes[rows], codes), Reason.AVOIDED)
    if shape.claims:
        _object(found, snapshot.claims.elsewhere(shape.claims, rows), Reason.CLAIM_ELSEWHERE)
        _object(found, snapshot.claims.unable(shape.claims, rows), Reason.NO_DEVICES)
    return found


def tolerated(snapshot: Snapshot, shape: Shape, rows: Rows) -> Flags:
    """Where no taint keeps the shape away."""
    table = np.array(
        [not intolerable(shape.tolerations, taints) for taints in snapshot.taint_sets], np.bool_
    )
    return table[snapshot.taints[rows]]


def reluctance(snapshot: Snapshot, shape: Shape, rows: Rows) -> NDArray[np.int64]:
    """How many taints of each node would rather not have the shape."""
    table = np.array(
        [
            sum(
                taint.effect == "PreferNoSchedule" and not tolerates(shape.tolerations, taint)
                for taint in taints
            )
            for taints in snapshot.taint_sets
        ],
        np.int64,
    )
    return table[snapshot.taints[rows]]


def _judge_gpus(snapshot: Snapshot, ask: GpuAsk, rows: Rows, found: Reasons) -> None:
    if ask.profile:
        column = snapshot.column(mig_resource(ask.profile))
        offered = snapshot.allocatable[column, rows] >= ask.count
        able = np.array([layout.has_profile(ask.profile) for layout in snapshot.layout_of])
        _object(found, ~(offered | able[snapshot.layouts[rows]]), Reason.MIG)
    else:
        offered = snapshot.allocatable[snapshot.resources[GPU], rows]
        _object(found, offered < ask.count, Reason.GPU_COUNT)
    for reason, part in _WISHES:
        wish = part(ask)
        if wish is not None:
            table = np.array([layout.eligible(wish).bit_count() for layout in snapshot.layout_of])
            devices = 1 if ask.profile else ask.count
            _object(found, table[snapshot.layouts[rows]] < devices, reason)


def _memory(ask: GpuAsk) -> GpuAsk | None:
    return GpuAsk(ask.count, memory=ask.memory) if ask.memory else None


def _models(ask: GpuAsk) -> GpuAsk | None:
    return GpuAsk(ask.count, models=ask.models) if ask.models else None


def _architecture(ask: GpuAsk) -> GpuAsk | None:
    return GpuAsk(ask.count, architecture=ask.architecture) if ask.architecture else None


_WISHES = (
    (Reason.GPU_MEMORY, _memory),
    (Reason.GPU_MODEL, _models),
    (Reason.ARCHITECTURE, _architecture),
)


def _object(found: Reasons, against: Flags, reason: Reason) -> None:
    found[(found == 0) & against] = reason
