"""Over all nodes, how many will not do for a pod, and why: the first reason of each counts.

The order is that of the filters; a node that passes all of them lacks room. The line that sums it
up is written as kube-scheduler writes it, for tools that read that.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from kilonova.scheduler.core.asks import Shape, is_host_port
from kilonova.scheduler.core.explaining.trial import Trial
from kilonova.scheduler.core.filters import Reason, intolerable
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.nearness import objections
from kilonova.scheduler.core.nodes import Taint
from kilonova.scheduler.core.rooms import Counts
from kilonova.scheduler.core.snapshot import GPU, PODS, mig_resource

CORDON = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
CLAIMED = "claimed devices"
"""Stands among resources for what claims ask for."""


@dataclass(frozen=True, slots=True)
class Count:
    """So many nodes that will not do for one reason. `about` is the resource or the taint."""

    reason: str
    about: str
    nodes: int
    text: str


@dataclass(frozen=True, slots=True)
class Tally:
    """What nodes say to one more pod of a group."""

    group: str
    nodes: int
    available: int
    """Nodes that have room for at least one pod."""
    counts: tuple[Count, ...]
    line: str


def tally(trial: Trial, group: str, member: Member) -> Tally:
    """Counts the nodes that will not do for a pod, by reason. What other pods say comes last."""
    rows = trial.rows()
    shape = member.shape
    room, against = trial.rooms.room(shape)[rows], trial.rooms.reasons(shape)[rows]
    counted: Counter[tuple[str, str, str]] = Counter()
    for reason in np.unique(against[against != Reason.FITS]).tolist():
        _count(trial, shape, Reason(reason), rows[against == reason], counted)
    _count_short(trial, shape, rows[(against == Reason.FITS) & (room < 1)], counted)
    others = objections(trial.snapshot, member)
    if others is not None:
        objected = np.where(room > 0, others[rows], Reason.FITS)
        for reason in np.unique(objected[objected != Reason.FITS]).tolist():
            _count(trial, shape, Reason(reason), rows[objected == reason], counted)
        room = np.where(objected == Reason.FITS, room, 0)
    counts = tuple(
        Count(reason, about, nodes, text)
        for (reason, about, text), nodes in sorted(
            counted.items(), key=lambda one: (-one[1], one[0])
        )
    )
    available = int((room > 0).sum())
    line = f"{available}/{len(rows)} nodes are available"
    by_text: Counter[str] = Counter()
    for count in counts:
        by_text[count.text] += count.nodes
    said = sorted(f"{nodes} {text}" for text, nodes in by_text.items())
    return Tally(
        group, len(rows), available, counts, f"{line}: {', '.join(said)}." if said else f"{line}."
    )


def short_of(trial: Trial, shape: Shape, rows: Rows) -> tuple[list[str], Counts]:
    """For each row the resource of which least pods of a shape could be given, as a position in a
    list of names."""
    snapshot = trial.snapshot
    names = [name for name, amount in shape.requests if amount > 0]
    rooms = [
        snapshot.free[snapshot.column(name), rows] // amount
        for name, amount in shape.requests
        if amount > 0
    ]
    devices = _devices_asked(shape)
    if devices:
        snapshot.column(devices)  # who asks looks there, though nobody may offer it by this name
        # What its devices can give is at most what is left by all that is counted.
        names.insert(0, devices)
        rooms.insert(0, trial.rooms.room(shape)[rows])
        others = np.minimum.reduce(rooms[1:]) if len(rooms) > 1 else rooms[0] + 1
        rooms[0] = np.where(rooms[0] < others, rooms[0], others + 1)
    if not names:
        return [PODS], np.zeros(len(rows), np.int64)
    return names, np.argmin(np.stack(rooms), axis=0).astype(np.int64)


def _count(
    trial: Trial, shape: Shape, reason: Reason, rows: Rows, counted: Counter[tuple[str, str, str]]
) -> None:
    snapshot = trial.snapshot
    match reason:
        case Reason.TAINT:
            for taints, number in enumerate(np.bincount(snapshot.taints[rows]).tolist()):
                if not number:
                    continue
                first = intolerable(shape.tolerations, snapshot.taint_sets[taints])[0]
                if first.key == CORDON.key:
                    counted["Cordoned", first.key, "node(s) were unschedulable"] += number
                else:
                    named = f"{{{first.key}: {first.value}}}"
                    text = f"node(s) had untolerated taint {named}"
                    counted["Taint", spelled(first), text] += number
        case Reason.RESOURCES:
            left = np.ones(len(rows), np.bool_)
            for name, amount in shape.requests:
                small = left & (snapshot.allocatable[snapshot.column(name), rows] < amount)
                left &= ~small
                if small.any():
                    counted["NodeTooSmall", name, _insufficient(name)] += int(small.sum())
        case Reason.GPU_COUNT:
            counted["NodeTooSmall", GPU, _insufficient(GPU)] += len(rows)
        case Reason.MIG:
            name = mig_resource(shape.gpu.profile) if shape.gpu is not None else GPU
            counted["NodeTooSmall", name, _insufficient(name)] += len(rows)
        case _:
            kind, text = _TEXTS.get(reason, (reason.name.title().replace("_", ""), ""))
            counted[kind, "", text or f"node(s) did not suit the pod ({kind})"] += len(rows)


def _count_short(
    trial: Trial, shape: Shape, rows: Rows, counted: Counter[tuple[str, str, str]]
) -> None:
    if len(rows):
        names, which = short_of(trial, shape, rows)
        for position, number in enumerate(np.bincount(which, minlength=len(names)).tolist()):
            if number:
                name = names[position]
                counted["Insufficient", name, _insufficient(name)] += number


def _devices_asked(shape: Shape) -> str:
    """The resource that the devices are which a shape asks for, if it does."""
    if shape.claims:
        return CLAIMED
    if shape.gpu is None:
        return ""
    return mig_resource(shape.gpu.profile) if shape.gpu.profile else GPU


def _insufficient(resource: str) -> str:
    if resource == CLAIMED:
        return "cannot allocate all claims"
    if resource == PODS:
        return "Too many pods"
    if is_host_port(resource):
        return "node(s) didn't have free ports for the requested pod ports"
    return f"Insufficient {resource}"


def spelled(taint: Taint) -> str:
    """A taint as `kubectl taint` writes it."""
    return f"{taint.key}={taint.value}:{taint.effect}"


_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
_TEXTS = {
    Reason.GPU_MEMORY: ("GpuMemory", "node(s) had GPUs with too little memory"),
    Reason.GPU_MODEL: ("GpuModel", "node(s) had GPUs of another model"),
    Reason.ARCHITECTURE: ("GpuArchitecture", "node(s) had GPUs of another architecture"),
    Reason.SELECTOR: ("NodeSelector", _AFFINITY),
    Reason.AFFINITY: ("NodeAffinity", _AFFINITY),
    Reason.AVOIDED: ("Avoided", "node(s) failed this workload before"),
    Reason.SPREAD: ("Spread", "node(s) didn't match pod topology spread constraints"),
    Reason.POD_AFFINITY: ("PodAffinity", "node(s) didn't match pod affinity rules"),
    Reason.POD_ANTI_AFFINITY: ("PodAntiAffinity", "node(s) didn't match pod anti-affinity rules"),
    Reason.REPELLED: ("Repelled", "node(s) didn't satisfy existing pods anti-affinity rules"),
    Reason.VOLUME_IN_USE: (
        "VolumeInUse",
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
        "already in-use by another pod",
    ),
    Reason.CLAIM_ELSEWHERE: (
        "ClaimElsewhere",
        "node(s) can't use the devices of an allocated claim",
    ),
    Reason.NO_DEVICES: ("NoDevices", "node(s) had no devices that claims of the pod ask for"),
}

NEIGHBOURLY = frozenset({"Spread", "PodAffinity", "PodAntiAffinity", "Repelled", "VolumeInUse"})
"""Reasons that other pods give."""
