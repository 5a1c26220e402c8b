"""How many nodes are infeasible for a pod, by reason: the first reason of each node counts.

The order is that of the filters; a node that passes all of them lacks free capacity. The summary
line has kube-scheduler's format, for tools that parse it.
"""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kilonova.catalog.resource_names import GPU, mig_resource
from kilonova.scheduler.core.explain.trial_cluster import TrialCluster
from kilonova.scheduler.core.filters.feasibility import Counts
from kilonova.scheduler.core.filters.inter_pod_rules import inter_pod_rejections
from kilonova.scheduler.core.filters.node_filters import FilterReason, untolerated_taints
from kilonova.scheduler.core.gpu.selection import requires_topology
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.node_table import PODS
from kilonova.scheduler.core.model.nodes import Taint
from kilonova.scheduler.core.model.requests import GpuPreference, Shape, is_host_port
from kilonova.scheduler.core.model.snapshot import Snapshot

CORDON_TAINT = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
CLAIMED_DEVICES = "claimed devices"
"""Pseudo-resource for the devices of claims."""
CONNECTED_GPUS = "GPUs that are connected well enough"
"""What is missing where GPUs are free, but no set of them has the required connections."""


@dataclass(frozen=True, slots=True)
class RejectionCount:
    """The number of nodes with one reason. `subject` is the resource or the taint."""

    reason: str
    subject: str
    nodes: int
    text: str


@dataclass(frozen=True, slots=True)
class NodeDiagnosis:
    """The result of the filters for one more pod of a group."""

    group: str
    nodes: int
    available: int
    """Nodes on which at least one pod fits."""
    counts: tuple[RejectionCount, ...]
    summary: str


def diagnose_nodes(trial: TrialCluster, group: str, member: Member) -> NodeDiagnosis:
    """Counts the nodes that are infeasible for a pod, by reason. Inter-pod rules come last."""
    rows = trial.live_rows()
    shape = member.shape
    capacity, rejections = (
        trial.feasibility.free_capacity(shape)[rows],
        trial.feasibility.rejection_reasons(shape)[rows],
    )
    counted: Counter[tuple[str, str, str]] = Counter()
    for reason in np.unique(rejections[rejections != FilterReason.FITS]).tolist():
        _count_rejection(trial, shape, FilterReason(reason), rows[rejections == reason], counted)
    _count_insufficient(
        trial, shape, rows[(rejections == FilterReason.FITS) & (capacity < 1)], counted
    )
    others = inter_pod_rejections(trial.snapshot, member)
    if others is not None:
        objected = np.where(capacity > 0, others[rows], FilterReason.FITS)
        for reason in np.unique(objected[objected != FilterReason.FITS]).tolist():
            _count_rejection(trial, shape, FilterReason(reason), rows[objected == reason], counted)
        capacity = np.where(objected == FilterReason.FITS, capacity, 0)
    counts = tuple(
        RejectionCount(reason, about, nodes, text)
        for (reason, about, text), nodes in sorted(
            counted.items(), key=lambda one: (-one[1], one[0])
        )
    )
    available = int((capacity > 0).sum())
    line = f"{available}/{len(rows)} nodes are available"
    by_text: Counter[str] = Counter()
    for count in counts:
        by_text[count.text] += count.nodes
    texts = sorted(f"{nodes} {text}" for text, nodes in by_text.items())
    return NodeDiagnosis(
        group, len(rows), available, counts, f"{line}: {', '.join(texts)}." if texts else f"{line}."
    )


def find_scarce_resources(
    trial: TrialCluster, shape: Shape, rows: Rows
) -> tuple[list[str], Counts]:
    """For each row the resource that limits the number of pods of a shape, as an index into a list
    of names."""
    snapshot = trial.snapshot
    names = [name for name, amount in shape.requests if amount > 0]
    capacities = [
        snapshot.free[snapshot.column(name), rows] // amount
        for name, amount in shape.requests
        if amount > 0
    ]
    devices = _requested_device_resource(shape)
    if devices:
        snapshot.column(devices)  # creates the column if no node lists the resource
        # Devices are the limit only where they allow fewer pods than all other resources.
        names.insert(0, devices)
        capacities.insert(0, trial.feasibility.free_capacity(shape)[rows])
        others = np.minimum.reduce(capacities[1:]) if len(capacities) > 1 else capacities[0] + 1
        capacities[0] = np.where(capacities[0] < others, capacities[0], others + 1)
    if not names:
        return [PODS], np.zeros(len(rows), np.int64)
    return names, np.argmin(np.stack(capacities), axis=0).astype(np.int64)


def lacks_connection(trial: TrialCluster, shape: Shape, rows: Rows) -> NDArray[np.bool_]:
    """The rows on which more pods of a shape would fit if their GPUs could be connected anyhow."""
    if shape.gpu is None or not requires_topology(shape.gpu):
        return np.zeros(len(rows), np.bool_)
    relaxed = replace(shape.gpu, preference=GpuPreference.NONE, bandwidth=0)
    capacity = trial.feasibility.free_capacity
    return capacity(replace(shape, gpu=relaxed))[rows] > capacity(shape)[rows]


def _count_rejection(
    trial: TrialCluster,
    shape: Shape,
    reason: FilterReason,
    rows: Rows,
    counted: Counter[tuple[str, str, str]],
) -> None:
    snapshot = trial.snapshot
    match reason:
        case FilterReason.TAINT:
            for taints, number in enumerate(np.bincount(snapshot.taints[rows]).tolist()):
                if not number:
                    continue
                first = untolerated_taints(shape.tolerations, snapshot.taint_sets[taints])[0]
                if first.key == CORDON_TAINT.key:
                    counted["Cordoned", first.key, "node(s) were unschedulable"] += number
                else:
                    named = f"{{{first.key}: {first.value}}}"
                    text = f"node(s) had untolerated taint {named}"
                    counted["Taint", format_taint(first), text] += number
        case FilterReason.RESOURCES:
            left = np.ones(len(rows), np.bool_)
            for name, amount in shape.requests:
                small = left & (snapshot.allocatable[snapshot.column(name), rows] < amount)
                left &= ~small
                if small.any():
                    counted["NodeTooSmall", name, _insufficient_text(name)] += int(small.sum())
        case FilterReason.GPU_COUNT:
            counted["NodeTooSmall", GPU, _insufficient_text(GPU)] += len(rows)
        case FilterReason.MIG_PROFILE:
            name = mig_resource(shape.gpu.profile) if shape.gpu is not None else GPU
            counted["NodeTooSmall", name, _insufficient_text(name)] += len(rows)
        case _:
            kind, text = _REJECTION_TEXTS.get(reason, (reason.name.title().replace("_", ""), ""))
            counted[kind, "", text or f"node(s) did not match the pod ({kind})"] += len(rows)


def _count_insufficient(
    trial: TrialCluster, shape: Shape, rows: Rows, counted: Counter[tuple[str, str, str]]
) -> None:
    if len(rows):
        unconnected = lacks_connection(trial, shape, rows)
        if unconnected.any():
            text = f"node(s) had too few {CONNECTED_GPUS}"
            counted["Unconnected", GPU, text] += int(unconnected.sum())
            rows = rows[~unconnected]
        names, which = find_scarce_resources(trial, shape, rows)
        for position, number in enumerate(np.bincount(which, minlength=len(names)).tolist()):
            if number:
                name = names[position]
                text = _insufficient_text(name) + _used_otherwise(
                    trial.snapshot, shape, name, rows[which == position]
                )
                counted["Insufficient", name, text] += number


def _used_otherwise(snapshot: Snapshot, shape: Shape, resource: str, rows: Rows) -> str:
    """How many GPUs claims hold where a pod requests GPUs from nodes, and the other way round."""
    if resource == CLAIMED_DEVICES:
        gpus = sum(map(snapshot.claims.count_gpus_of_pods, rows.tolist()))
        return f" ({gpus} GPU(s) in use by pods without a claim)" if gpus else ""
    if resource != _requested_device_resource(shape):
        return ""
    gpus = int(np.count_nonzero(snapshot.gpu_claimed[rows]))
    return f" ({gpus} GPU(s) allocated to ResourceClaims)" if gpus else ""


def _requested_device_resource(shape: Shape) -> str:
    """The resource of the devices that a shape requests, empty if none."""
    if shape.claims:
        return CLAIMED_DEVICES
    if shape.gpu is None:
        return ""
    return mig_resource(shape.gpu.profile) if shape.gpu.profile else GPU


def _insufficient_text(resource: str) -> str:
    if resource == CLAIMED_DEVICES:
        return "cannot allocate all claims"
    if resource == PODS:
        return "Too many pods"
    if is_host_port(resource):
        return "node(s) didn't have free ports for the requested pod ports"
    return f"Insufficient {resource}"


def format_taint(taint: Taint) -> str:
    """A taint in the format of `kubectl taint`."""
    return f"{taint.key}={taint.value}:{taint.effect}"


_NODE_AFFINITY_TEXT = "node(s) didn't match Pod's node affinity/selector"
_REJECTION_TEXTS = {
    FilterReason.GPU_MEMORY: ("GpuMemory", "node(s) had GPUs with too little memory"),
    FilterReason.GPU_MODEL: ("GpuModel", "node(s) had GPUs of another model"),
    FilterReason.ARCHITECTURE: ("GpuArchitecture", "node(s) had GPUs of another architecture"),
    FilterReason.SELECTOR: ("NodeSelector", _NODE_AFFINITY_TEXT),
    FilterReason.AFFINITY: ("NodeAffinity", _NODE_AFFINITY_TEXT),
    FilterReason.AVOIDED: ("NodeAvoided", "node(s) avoided after failures of this workload"),
    FilterReason.SPREAD: ("Spread", "node(s) didn't match pod topology spread constraints"),
    FilterReason.POD_AFFINITY: ("PodAffinity", "node(s) didn't match pod affinity rules"),
    FilterReason.POD_ANTI_AFFINITY: (
        "PodAntiAffinity",
        "node(s) didn't match pod anti-affinity rules",
    ),
    FilterReason.EXISTING_POD_ANTI_AFFINITY: (
        "ExistingPodAntiAffinity",
        "node(s) didn't satisfy existing pods anti-affinity rules",
    ),
    FilterReason.VOLUME_IN_USE: (
        "VolumeInUse",
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod",
    ),
    FilterReason.CLAIM_ON_OTHER_NODE: (
        "ClaimOnOtherNode",
        "node(s) can't use the devices of an allocated claim",
    ),
    FilterReason.NO_DEVICES: (
        "NoMatchingDevices",
        "node(s) had no devices that match the pod's claims",
    ),
}

INTER_POD_REASONS = frozenset(
    {"Spread", "PodAffinity", "PodAntiAffinity", "ExistingPodAntiAffinity", "VolumeInUse"}
)
"""Reasons that depend on other pods."""
