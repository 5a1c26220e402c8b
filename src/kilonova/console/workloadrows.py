"""Workloads as rows: what somebody runs, and how it is. Pure.

The page, `kilonova workloads` and `kilonova top` all show these rows, so that they agree. A
**part** is anything that a workload is made of: what makes its pods, its gangs, its pods.

What became of a Job is what its conditions say: a pod that failed and was retried, or that a
success policy left behind, says nothing of it. All else is as its pods are.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kilonova.console.rows import (
    ENDED,
    CliqueRow,
    GangRow,
    OwnerRow,
    PodRow,
    SetRow,
    WorkloadRow,
)

SET = "PodCliqueSet"
GANG = "PodGang"
STATES = (
    "Failed",
    "Degraded",
    "Waiting",
    "Partial",
    "Pending",
    "Starting",
    "Updating",
    "Terminating",
    "Running",
    "Suspended",
    "Completed",
    "Empty",
)
"""How a workload can be; those that need a look come first. `Waiting` has no place for any of its
pods, `Partial` for some; `Pending` has no pods yet, `Empty` is to have none."""

_UNSEEN = "not looked at yet"


@dataclass(frozen=True, slots=True)
class Parts:
    """What is known of a workload."""

    id: str
    """`Kind/namespace/name`."""
    set: SetRow | None = None
    owner: OwnerRow | None = None
    gangs: Sequence[GangRow] = ()
    cliques: Sequence[CliqueRow] = ()
    pods: Sequence[PodRow] = ()


def workload_row(parts: Parts) -> WorkloadRow:
    """A workload as it is shown."""
    pods = _sorted(parts.pods)
    wanted = _wanted(parts)
    state = _state(parts, pods, wanted)
    return WorkloadRow(
        id=parts.id,
        state=state,
        pods=wanted,
        ready=_ready(parts, pods),
        gpus=_gpus(parts, pods, wanted),
        queue=_queue(parts),
        why=_why(parts, pods, state),
        created=_created(parts),
    )


def wanted_gpus(pod: PodRow) -> float:
    """GPUs that a pod asks for; where it asks for parts of devices, those that it holds."""
    return float(pod.gpus) or pod.held


@dataclass(frozen=True, slots=True)
class _Pods:
    """Pods of a workload by how far they are."""

    ended: Sequence[PodRow]
    leaving: Sequence[PodRow]
    alive: Sequence[PodRow]
    """Neither of them."""


def _sorted(pods: Iterable[PodRow]) -> _Pods:
    ended: list[PodRow] = []
    leaving: list[PodRow] = []
    alive: list[PodRow] = []
    for pod in pods:
        if pod.phase in ENDED:
            ended.append(pod)
        elif pod.state == "Terminating":
            leaving.append(pod)
        else:
            alive.append(pod)
    return _Pods(ended, leaving, alive)


def _wanted(parts: Parts) -> int:
    """How many pods it should have."""
    if parts.owner is not None:
        return parts.owner.replicas
    if parts.set is None:
        return sum(pod.phase != "Failed" for pod in parts.pods) or len(parts.pods)
    if parts.cliques:
        return sum(clique.replicas for clique in parts.cliques)
    return parts.set.replicas * sum(clique.replicas for clique in parts.set.cliques)


def _state(parts: Parts, pods: _Pods, wanted: int) -> str:
    set_, owner, gangs = parts.set, parts.owner, parts.gangs
    if owner is not None and owner.finished:
        return owner.finished
    if (owner is not None and owner.deleting) or (set_ is not None and set_.deleting):
        return "Terminating"
    if owner is not None and owner.suspended:
        return "Suspended"
    if (owner is not None or set_ is not None) and wanted == 0:
        return "Terminating" if pods.alive or pods.leaving else "Empty"
    if not pods.alive:
        return _without_pods(parts, pods)
    ready = any(pod.ready for pod in pods.alive)
    stuck = owner is not None and owner.stuck
    if stuck or any(gang.phase == "Failed" for gang in gangs) or any(_broken(pods)):
        return "Degraded" if ready else "Failed"
    if _waits(gangs, pods):
        return "Partial" if any(pod.node for pod in pods.alive) else "Waiting"
    if (owner is not None and owner.updating) or (set_ is not None and set_.updating):
        return "Updating"
    count = sum(pod.ready for pod in pods.alive)
    if set_ is not None and count < wanted:
        return "Degraded" if set_.problem and count else "Starting"
    lacks = owner is not None and owner.kind != "Job" and count < wanted
    return "Starting" if lacks or count < len(pods.alive) else "Running"


def _without_pods(parts: Parts, pods: _Pods) -> str:
    """How it is while none of its pods runs or will."""
    if pods.leaving:
        return "Terminating"
    if parts.owner is not None:
        # Whoever made the pods that ended makes others.
        return "Pending"
    if pods.ended:
        done = all(pod.phase == "Succeeded" for pod in pods.ended)
        return "Completed" if done else "Failed"
    if any(gang.phase == "Failed" for gang in parts.gangs):
        return "Failed"
    return "Waiting" if any(map(_has_no_place, parts.gangs)) else "Pending"


def _broken(pods: _Pods) -> Iterable[bool]:
    return (pod.broken for pod in pods.alive)


def _has_no_place(gang: GangRow) -> bool:
    return gang.phase in ("", "Pending")


def _waits(gangs: Iterable[GangRow], pods: _Pods) -> bool:
    if any(map(_has_no_place, gangs)):
        return True
    return any(not pod.node and pod.phase == "Pending" for pod in pods.alive)


def _ready(parts: Parts, pods: _Pods) -> int:
    """Pods that are ready. Those that succeeded count where nothing brings them back."""
    ready = sum(pod.ready for pod in pods.alive)
    owner = parts.owner
    if owner is not None:
        return ready + owner.succeeded
    return ready + sum(pod.phase == "Succeeded" for pod in pods.ended)


def _gpus(parts: Parts, pods: _Pods, wanted: int) -> float:
    """Of pods that hold or want them; of the template, while there are no pods yet."""
    if parts.pods:
        return round(sum(map(wanted_gpus, (*pods.alive, *pods.leaving))), 3)
    if parts.set is not None:
        each = sum(clique.replicas * clique.gpus for clique in parts.set.cliques)
        return float(parts.set.replicas * each)
    owner = parts.owner
    if owner is None or owner.finished or owner.suspended or owner.deleting:
        return 0.0
    count = min(wanted, owner.parallelism) if owner.kind == "Job" else wanted
    return float(count * owner.gpus)


def _queue(parts: Parts) -> str:
    """Empty for the usual one."""
    gangs, pods = (each.queue for each in parts.gangs), (each.queue for each in parts.pods)
    named = (*gangs, *pods, parts.owner.queue if parts.owner is not None else "")
    return next(filter(None, named), "")


def _created(parts: Parts) -> float | None:
    if parts.set is not None:
        return parts.set.created
    if parts.owner is not None:
        return parts.owner.created
    known = (each.created for each in (*parts.gangs, *parts.pods))
    return min((each for each in known if each is not None), default=None)


def _why(parts: Parts, pods: _Pods, state: str) -> str:
    """Why it is not running as it should; empty where there is nothing to say."""
    owner = parts.owner.problem if parts.owner is not None else ""
    problem = owner or (parts.set.problem if parts.set is not None else "")
    match state:
        case "Failed" | "Degraded":
            return problem or _trouble([pod for pod in parts.pods if pod.broken])
        case "Waiting" | "Partial":
            return _wait(parts.gangs, pods) or problem or _UNSEEN
        case "Pending":
            return problem or _trouble([pod for pod in parts.pods if pod.broken])
        case "Starting" | "Updating":
            return problem or _tally(pod for pod in pods.alive if not pod.ready)
        case "Completed" | "Suspended":
            return ""
        case _:
            return problem


def _trouble(broken: Sequence[PodRow]) -> str:
    if not broken:
        return ""
    first = broken[0]
    many = f"{len(broken)} pods: " if len(broken) > 1 else ""
    return f"{many}{first.state}{f', {first.message}' if first.message else ''}"


def _wait(gangs: Iterable[GangRow], pods: _Pods) -> str:
    told = next((gang.waits for gang in gangs if _has_no_place(gang) and gang.waits), "")
    said = (pod.message or pod.reason for pod in pods.alive if not pod.node)
    return told or next(filter(None, said), "")


def _tally(pods: Iterable[PodRow]) -> str:
    states = Counter("not ready" if pod.state == "Running" else pod.state for pod in pods)
    return ", ".join(f"{count} {state}" for state, count in states.items())
