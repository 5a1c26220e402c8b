"""Which nodes are feasible for a pod, and the reasons against the others. Pure.

A reason is **unresolvable** if no preemption on the node would help. Equal reasons have equal
texts: kube-scheduler counts them into one line, "2 Insufficient nvidia.com/gpu".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady, convert_single_pod
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.filters.node_filters import FilterReason
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.node_table import PODS
from kilonova.scheduler.core.model.requests import GpuPreference, GpuRequest, Shape, is_host_port
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.objects.core_v1 import Pod

_CLAIMED = " (some GPUs are allocated to ResourceClaims)"
UNKNOWN_NODE = "node(s) not in the extender's cache yet"


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Feasible nodes, and the reasons against the others: resolvable by preemption, or not."""

    feasible: list[str] = field(default_factory=list[str])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    unresolvable: dict[str, str] = field(default_factory=dict[str, str])


def convert_requested_pod(pod: Pod) -> Member | GangNotReady:
    """Convert a pod's requests and constraints; `GangNotReady` if they are invalid."""
    gang = convert_single_pod(pod)
    if isinstance(gang, GangNotReady):
        return gang
    return next(iter((*gang.groups[0].members, *gang.groups[0].placed_members)))


def filter_nodes(
    snapshot: Snapshot, feasibility: FeasibilityCache, shape: Shape, names: Sequence[str]
) -> FilterResult:
    """Filter the named nodes for one more pod of a shape."""
    known, rows = known_rows(snapshot, names)
    reasons, free_capacity = (
        feasibility.rejection_reasons(shape)[rows],
        feasibility.free_capacity(shape)[rows],
    )
    without_capacity = np.flatnonzero((reasons == FilterReason.FITS) & (free_capacity < 1))
    insufficient = zip(
        without_capacity.tolist(),
        _insufficient_resources(snapshot, shape, rows[without_capacity]),
        strict=True,
    )
    result = FilterResult(
        feasible=[known[at] for at in np.flatnonzero(free_capacity > 0).tolist()],
        failed={known[at]: text for at, text in insufficient},
    )
    if len(known) < len(names):
        result.unresolvable.update({name: UNKNOWN_NODE for name in names if name not in snapshot})
    for number in np.unique(reasons[reasons != FilterReason.FITS]).tolist():
        text = _reason_message(FilterReason(number), shape)
        for at in np.flatnonzero(reasons == number).tolist():
            result.unresolvable[known[at]] = text
    return result


def known_rows(snapshot: Snapshot, names: Sequence[str]) -> tuple[Sequence[str], Rows]:
    """The named nodes that the cache knows, and their rows."""
    try:
        return names, np.fromiter(map(snapshot.row, names), np.intp, len(names))
    except KeyError:
        return known_rows(snapshot, [name for name in names if name in snapshot])


def rejection_reason(
    snapshot: Snapshot, feasibility: FeasibilityCache, shape: Shape, node: str
) -> str:
    """The reason against one node; empty if it is feasible."""
    result = filter_nodes(snapshot, feasibility, shape, (node,))
    return result.failed.get(node) or result.unresolvable.get(node, "")


def _insufficient_resources(snapshot: Snapshot, shape: Shape, rows: Rows) -> list[str]:
    """The insufficient resource of each row."""
    texts = np.full(len(rows), "", object)
    columns, amounts = snapshot.request_columns(shape)
    requests = zip(shape.requests, columns.tolist(), amounts.tolist(), strict=True)
    for (name, _), column, amount in requests:
        short = (texts == "") & (snapshot.free[column, rows] < amount)
        texts[short] = _insufficient_message(name)
    texts[texts == ""] = _insufficient_devices_message(shape.gpu)
    if shape.gpu is not None:
        claimed = np.flatnonzero(snapshot.gpu_claimed[rows].any(axis=1)).tolist()
        for position in claimed:
            texts[position] += _CLAIMED
    return texts.tolist()


def _insufficient_message(resource: str) -> str:
    if resource == PODS:
        return "Too many pods"
    if is_host_port(resource):
        return "node(s) didn't have free ports for the requested pod ports"
    return f"Insufficient {resource}"


def _insufficient_devices_message(request: GpuRequest | None) -> str:
    if request is None:
        return "node(s) had insufficient capacity"
    if request.profile:
        instances = _format_count(request, f"MIG instance {request.profile}")
        return f"node(s) had insufficient free slices for {instances}"
    if not request.is_whole:
        parts = [f"{request.milli}/1000"] if request.milli else []
        parts += [f"{request.share_memory} MiB"] if request.share_memory else []
        size = " and ".join(parts)
        return f"node(s) had no GPU with {size} free"
    joined = " joined by NVLink" if request.preference is GpuPreference.NVLINK_REQUIRED else ""
    speed = f" with a bandwidth of {request.bandwidth} GB/s" if request.bandwidth else ""
    return f"node(s) had too few free GPUs{joined or speed or ' of the requested kind'}"


def _reason_message(reason: FilterReason, shape: Shape) -> str:
    request = shape.gpu or GpuRequest(0)
    gpus = _format_count(request, "GPU")
    match reason:
        case FilterReason.NODE_REMOVED:
            return UNKNOWN_NODE
        case FilterReason.GPU_COUNT:
            return f"node(s) had fewer than {request.count} {GPU}"
        case FilterReason.GPU_MEMORY:
            return f"node(s) had fewer than {gpus} of {request.memory} MiB"
        case FilterReason.GPU_MODEL:
            return f"node(s) had fewer than {gpus} of {' or '.join(request.models)}"
        case FilterReason.ARCHITECTURE:
            return f"node(s) had fewer than {gpus} of {request.architecture}"
        case FilterReason.MIG_PROFILE:
            instances = _format_count(request, f"MIG instance {request.profile}")
            return f"node(s) could not provide {instances}"
        case FilterReason.RESOURCES:
            return "node(s) were too small for the pod's requests"
        case FilterReason.TAINT:
            return "node(s) had untolerated taints"
        case FilterReason.SELECTOR | FilterReason.AFFINITY:
            return "node(s) didn't match Pod's node affinity/selector"
        case FilterReason.AVOIDED:
            return "node(s) avoided after failures of this workload"
        case _:
            return f"node(s) did not match the pod ({reason.name.lower()})"


def _format_count(request: GpuRequest, what: str) -> str:
    return f"{request.count} {what}"
