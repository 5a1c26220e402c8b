"""Filters that do not depend on usage: a rejection reason for each node, or none.

The first filter that rejects a node gives its reason: GPUs first, then resources, taints, selectors
and affinity.
"""

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from kilonova.catalog.resource_names import GPU, mig_resource
from kilonova.scheduler.core.model.label_columns import NODE_NAME, Flags, Rows
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.model.taints import untolerated_soft_taints, untolerated_taints

Reasons = NDArray[np.int8]


class FilterReason(IntEnum):
    """Why a node is infeasible for a shape."""

    FITS = 0
    NODE_REMOVED = 1
    GPU_COUNT = 2
    GPU_MEMORY = 3
    GPU_MODEL = 4
    ARCHITECTURE = 5
    MIG_PROFILE = 6
    RESOURCES = 7
    TAINT = 8
    SELECTOR = 9
    AFFINITY = 10
    AVOIDED = 11
    SPREAD = 12
    POD_AFFINITY = 13
    POD_ANTI_AFFINITY = 14
    EXISTING_POD_ANTI_AFFINITY = 15
    """The anti-affinity of a placed pod matches the pod."""
    VOLUME_IN_USE = 16
    CLAIM_ON_OTHER_NODE = 17
    """Devices of its claims are allocated on other nodes."""
    NO_DEVICES = 18
    """The node has no devices that match its claims."""


def filter_nodes(snapshot: Snapshot, shape: Shape, rows: Rows) -> Reasons:
    """For each row the first reason against it, `FITS` if there is none."""
    found = np.zeros(len(rows), np.int8)
    _reject(found, ~snapshot.alive[rows], FilterReason.NODE_REMOVED)
    if shape.gpu is not None:
        _filter_gpus(snapshot, shape.gpu, rows, found)
    columns, amounts = snapshot.request_columns(shape)
    for column, amount in zip(columns.tolist(), amounts.tolist(), strict=True):
        _reject(found, snapshot.allocatable[column, rows] < amount, FilterReason.RESOURCES)
    _reject(found, ~tolerated_rows(snapshot, shape, rows), FilterReason.TAINT)
    if shape.node_selector:
        _reject(
            found,
            ~snapshot.labels.matches_selector(shape.node_selector, rows),
            FilterReason.SELECTOR,
        )
    for terms in shape.required_node_terms:
        _reject(found, ~snapshot.labels.matches_any(terms, rows), FilterReason.AFFINITY)
    if shape.avoided_nodes:
        names = snapshot.labels.column(NODE_NAME)
        codes = [names.code(name) for name in shape.avoided_nodes]
        _reject(found, np.isin(names.codes[rows], codes), FilterReason.AVOIDED)
    if shape.claims:
        _reject(
            found,
            snapshot.claims.allocated_elsewhere(shape.claims, rows),
            FilterReason.CLAIM_ON_OTHER_NODE,
        )
        _reject(found, snapshot.claims.lacks_devices(shape.claims, rows), FilterReason.NO_DEVICES)
    return found


def tolerated_rows(snapshot: Snapshot, shape: Shape, rows: Rows) -> Flags:
    """Rows all of whose taints the shape tolerates."""
    table = np.array(
        [not untolerated_taints(shape.tolerations, taints) for taints in snapshot.taint_sets],
        np.bool_,
    )
    return table[snapshot.taints[rows]]


def count_prefer_no_schedule(snapshot: Snapshot, shape: Shape, rows: Rows) -> NDArray[np.int64]:
    """Number of PreferNoSchedule taints of each node that the shape does not tolerate."""
    table = np.array(
        [len(untolerated_soft_taints(shape.tolerations, taints)) for taints in snapshot.taint_sets],
        np.int64,
    )
    return table[snapshot.taints[rows]]


def _filter_gpus(snapshot: Snapshot, request: GpuRequest, rows: Rows, found: Reasons) -> None:
    if request.profile:
        column = snapshot.column(mig_resource(request.profile))
        offered = snapshot.allocatable[column, rows] >= request.count
        feasible = np.array([layout.has_profile(request.profile) for layout in snapshot.layout_of])
        _reject(found, ~(offered | feasible[snapshot.layouts[rows]]), FilterReason.MIG_PROFILE)
    else:
        offered = snapshot.allocatable[snapshot.resources[GPU], rows]
        _reject(found, offered < request.count, FilterReason.GPU_COUNT)
    for reason, part in _GPU_FILTERS:
        requirement = part(request)
        if requirement is not None:
            table = np.array(
                [layout.eligible_devices(requirement).bit_count() for layout in snapshot.layout_of]
            )
            devices = 1 if request.profile else request.count
            _reject(found, table[snapshot.layouts[rows]] < devices, reason)


def _only_memory(request: GpuRequest) -> GpuRequest | None:
    return GpuRequest(request.count, memory=request.memory) if request.memory else None


def _only_models(request: GpuRequest) -> GpuRequest | None:
    return GpuRequest(request.count, models=request.models) if request.models else None


def _only_architecture(request: GpuRequest) -> GpuRequest | None:
    return (
        GpuRequest(request.count, architecture=request.architecture)
        if request.architecture
        else None
    )


_GPU_FILTERS = (
    (FilterReason.GPU_MEMORY, _only_memory),
    (FilterReason.GPU_MODEL, _only_models),
    (FilterReason.ARCHITECTURE, _only_architecture),
)


def _reject(found: Reasons, rejected: Flags, reason: FilterReason) -> None:
    found[(found == 0) & rejected] = reason
