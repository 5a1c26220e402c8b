"""Which of some nodes will do for a pod, and why the others will not. Pure.

A reason is **unresolvable** where no pod that leaves the node would help. Equal reasons are worded
equally: kube-scheduler counts them into one line, "2 Insufficient nvidia.com/gpu".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kilonova.scheduler.core.asks import GpuAsk, Preference, Shape, is_host_port
from kilonova.scheduler.core.filters import Reason
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import GPU, PODS, Snapshot
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.gangs import NotYet, read_lone_pod

UNKNOWN = "node(s) were not known to the extender yet"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Nodes that will do, and why the others will not: for now, or whoever leaves them."""

    passed: list[str] = field(default_factory=list[str])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    unresolvable: dict[str, str] = field(default_factory=dict[str, str])


def member_asked(pod: Pod) -> Member | NotYet:
    """What a pod asks for, and which nodes it avoids; or what is wrong with how it asks."""
    alone = read_lone_pod(pod)
    if isinstance(alone, NotYet):
        return alone
    return next(iter((*alone.groups[0].members, *alone.groups[0].standing)))


def judge(snapshot: Snapshot, rooms: Rooms, shape: Shape, names: Sequence[str]) -> Judgement:
    """Looks at every node of some names for one more pod of a shape."""
    known, rows = known_rows(snapshot, names)
    against, room = rooms.reasons(shape)[rows], rooms.room(shape)[rows]
    full = np.flatnonzero((against == Reason.FITS) & (room < 1))
    lacking = zip(full.tolist(), _lacking(snapshot, shape, rows[full]), strict=True)
    judgement = Judgement(
        passed=[known[at] for at in np.flatnonzero(room > 0).tolist()],
        failed={known[at]: text for at, text in lacking},
    )
    if len(known) < len(names):
        judgement.unresolvable.update({name: UNKNOWN for name in names if name not in snapshot})
    for number in np.unique(against[against != Reason.FITS]).tolist():
        text = _text(Reason(number), shape)
        for at in np.flatnonzero(against == number).tolist():
            judgement.unresolvable[known[at]] = text
    return judgement


def known_rows(snapshot: Snapshot, names: Sequence[str]) -> tuple[Sequence[str], Rows]:
    """The nodes of some names that are known, and their rows."""
    try:
        return names, np.fromiter(map(snapshot.row, names), np.intp, len(names))
    except KeyError:
        return known_rows(snapshot, [name for name in names if name in snapshot])


def objection(snapshot: Snapshot, rooms: Rooms, shape: Shape, node: str) -> str:
    """Why one node will not do; empty if it will."""
    judgement = judge(snapshot, rooms, shape, (node,))
    return judgement.failed.get(node) or judgement.unresolvable.get(node, "")


def _lacking(snapshot: Snapshot, shape: Shape, rows: Rows) -> list[str]:
    """What each of some nodes has not enough of."""
    texts = np.full(len(rows), "", object)
    columns, amounts = snapshot.request(shape)
    asked = zip(shape.requests, columns.tolist(), amounts.tolist(), strict=True)
    for (name, _), column, amount in asked:
        short = (texts == "") & (snapshot.free[column, rows] < amount)
        texts[short] = _insufficient(name)
    texts[texts == ""] = _no_devices(shape.gpu)
    return texts.tolist()


def _insufficient(resource: str) -> str:
    if resource == PODS:
        return "Too many pods"
    if is_host_port(resource):
        return "node(s) didn't have free ports for the requested pod ports"
    return f"Insufficient {resource}"


def _no_devices(ask: GpuAsk | None) -> str:
    if ask is None:
        return "node(s) had no room"
    if ask.profile:
        return f"node(s) had no place for {_counted(ask, f'MIG instance {ask.profile}')}"
    if not ask.whole:
        size = f"{ask.milli}/1000" if ask.milli else f"{ask.memory} MiB"
        return f"node(s) had no GPU with {size} free"
    joined = " joined by NVLink" if ask.preference is Preference.NVLINK_REQUIRED else ""
    speed = f" that exchange {ask.bandwidth} GB/s" if ask.bandwidth else ""
    return f"node(s) had too few free GPUs{joined or speed or ' of the kind asked for'}"


def _text(reason: Reason, shape: Shape) -> str:
    ask = shape.gpu or GpuAsk(0)
    match reason:
        case Reason.GONE:
            return UNKNOWN
        case Reason.GPU_COUNT:
            return f"node(s) had fewer than {ask.count} {GPU}"
        case Reason.GPU_MEMORY:
            return f"node(s) had fewer than {_counted(ask, 'GPU')} of {ask.memory} MiB"
        case Reason.GPU_MODEL:
            return f"node(s) had fewer than {_counted(ask, 'GPU')} of {' or '.join(ask.models)}"
        case Reason.ARCHITECTURE:
            return f"node(s) had fewer than {_counted(ask, 'GPU')} of {ask.architecture}"
        case Reason.MIG:
            return f"node(s) could not have {_counted(ask, f'MIG instance {ask.profile}')}"
        case Reason.RESOURCES:
            return "node(s) were too small for the pod's requests"
        case Reason.TAINT:
            return "node(s) had untolerated taints"
        case Reason.SELECTOR | Reason.AFFINITY:
            return "node(s) didn't match Pod's node affinity/selector"
        case Reason.AVOIDED:
            return "node(s) failed this workload before"
        case _:
            return f"node(s) did not suit the pod ({reason.name.lower()})"


def _counted(ask: GpuAsk, what: str) -> str:
    return f"{ask.count} {what}"
