"""Workloads as rows: top-level controllers with the state of their pods. Pure.

The page, `kilonova workloads` and `kilonova top` all show these rows, so that they agree. The
**parts** of a workload are its controller, gangs, cliques and pods. Its **members** are objects
that make pods for it and name it as their workload, such as the PodCliqueSet of a service; they say
what is known of it while it has no pods.

The outcome of a Job is taken from its conditions, since failed pods may have been retried or
left by a success policy. The state of all other workloads is derived from their pods.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kilonova.api.scheduling import NOT_OBSERVED
from kilonova.console.rows.model import (
    TERMINAL_PHASES,
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
    "Pending",
    "Partial",
    "Creating",
    "Starting",
    "Updating",
    "Terminating",
    "Running",
    "Suspended",
    "Completed",
    "Empty",
)
"""States of a workload; those that need attention come first. `Pending`: none of its pods is
placed; `Partial`: some are; `Creating`: it has no pods yet; `Empty`: scaled to zero."""


@dataclass(frozen=True, slots=True)
class WorkloadParts:
    """The parts of a workload."""

    id: str
    """`Kind/namespace/name`."""
    set: SetRow | None = None
    owner: OwnerRow | None = None
    gangs: Sequence[GangRow] = ()
    cliques: Sequence[CliqueRow] = ()
    pods: Sequence[PodRow] = ()
    members: Sequence[SetRow | OwnerRow] = ()


def workload_row(parts: WorkloadParts) -> WorkloadRow:
    """The row of a workload."""
    pods = _group_by_lifecycle(parts.pods)
    desired = _desired_pods(parts)
    state = _workload_state(parts, pods, desired)
    return WorkloadRow(
        id=parts.id,
        state=state,
        pods=desired,
        ready=_count_ready(parts, pods),
        gpus=_count_gpus(parts, pods),
        queue=_queue_name(parts),
        why=_workload_reason(parts, pods, state),
        created=_created_at(parts),
    )


def requested_gpus(pod: PodRow) -> float:
    """GPUs requested by a pod; if it requests shares of devices, those allocated to it."""
    return float(pod.gpus) or pod.allocated_gpus


@dataclass(frozen=True, slots=True)
class _PodsByLifecycle:
    """Pods of a workload by lifecycle."""

    ended: Sequence[PodRow]
    terminating: Sequence[PodRow]
    active: Sequence[PodRow]
    """All others."""


def _group_by_lifecycle(pods: Iterable[PodRow]) -> _PodsByLifecycle:
    ended: list[PodRow] = []
    terminating: list[PodRow] = []
    active: list[PodRow] = []
    for pod in pods:
        if pod.phase in TERMINAL_PHASES:
            ended.append(pod)
        elif pod.state == "Terminating":
            terminating.append(pod)
        else:
            active.append(pod)
    return _PodsByLifecycle(ended, terminating, active)


def _desired_pods(parts: WorkloadParts) -> int:
    """The desired number of pods."""
    if parts.owner is not None:
        return parts.owner.replicas
    if parts.set is None:
        if not parts.pods:
            return sum(map(_template_pods, parts.members))
        return sum(pod.phase != "Failed" for pod in parts.pods) or len(parts.pods)
    if parts.cliques:
        return sum(clique.replicas for clique in parts.cliques)
    return _template_pods(parts.set)


def _template_pods(made: SetRow | OwnerRow) -> int:
    """The pods that an object declares."""
    if isinstance(made, OwnerRow):
        return made.replicas
    return made.replicas * sum(clique.replicas for clique in made.cliques)


def _workload_state(parts: WorkloadParts, pods: _PodsByLifecycle, desired: int) -> str:
    set_, owner, gangs = parts.set, parts.owner, parts.gangs
    if owner is not None and owner.finished:
        return owner.finished
    if (owner is not None and owner.deleting) or (set_ is not None and set_.deleting):
        return "Terminating"
    if owner is not None and owner.suspended:
        return "Suspended"
    if (owner is not None or set_ is not None) and desired == 0:
        return "Terminating" if pods.active or pods.terminating else "Empty"
    if not pods.active:
        return _state_without_pods(parts, pods)
    ready = any(pod.ready for pod in pods.active)
    stalled = owner is not None and owner.stalled
    if stalled or any(gang.phase == "Failed" for gang in gangs) or any(_failing_flags(pods)):
        return "Degraded" if ready else "Failed"
    if _is_pending(gangs, pods):
        return "Partial" if any(pod.node for pod in pods.active) else "Pending"
    if (owner is not None and owner.updating) or (set_ is not None and set_.updating):
        return "Updating"
    count = sum(pod.ready for pod in pods.active)
    if set_ is not None and count < desired:
        return "Degraded" if set_.problem and count else "Starting"
    is_below_desired = owner is not None and owner.kind != "Job" and count < desired
    return "Starting" if is_below_desired or count < len(pods.active) else "Running"


def _state_without_pods(parts: WorkloadParts, pods: _PodsByLifecycle) -> str:
    """The state of a workload without active pods."""
    if not parts.pods and parts.owner is None and (state := _state_of_members(parts.members)):
        return state
    if pods.terminating:
        return "Terminating"
    if parts.owner is not None:
        # The controller replaces finished pods.
        return "Creating"
    if pods.ended:
        succeeded = all(pod.phase == "Succeeded" for pod in pods.ended)
        return "Completed" if succeeded else "Failed"
    if any(gang.phase == "Failed" for gang in parts.gangs):
        return "Failed"
    return "Pending" if any(map(_is_unplaced, parts.gangs)) else "Creating"


def _state_of_members(members: Iterable[SetRow | OwnerRow]) -> str:
    """The state that members without pods declare; empty if one of them is to have pods."""
    states = set(map(_declared_state, members))
    return "" if not states or "" in states else min(states, key=STATES.index)


def _declared_state(member: SetRow | OwnerRow) -> str:
    if member.deleting:
        return "Terminating"
    if isinstance(member, OwnerRow) and (member.finished or member.suspended):
        return member.finished or "Suspended"
    return "" if _template_pods(member) else "Empty"


def _failing_flags(pods: _PodsByLifecycle) -> Iterable[bool]:
    return (pod.failing for pod in pods.active)


def _is_unplaced(gang: GangRow) -> bool:
    return gang.phase in ("", "Pending")


def _is_pending(gangs: Iterable[GangRow], pods: _PodsByLifecycle) -> bool:
    if any(map(_is_unplaced, gangs)):
        return True
    return any(not pod.node and pod.phase == "Pending" for pod in pods.active)


def _count_ready(parts: WorkloadParts, pods: _PodsByLifecycle) -> int:
    """Ready pods, and succeeded ones that are not replaced."""
    ready = sum(pod.ready for pod in pods.active)
    owner = parts.owner
    if owner is not None:
        return ready + owner.succeeded
    return ready + sum(pod.phase == "Succeeded" for pod in pods.ended)


def _count_gpus(parts: WorkloadParts, pods: _PodsByLifecycle) -> float:
    """GPUs of active and terminating pods; of the template while there are no pods."""
    if parts.pods:
        return round(sum(map(requested_gpus, (*pods.active, *pods.terminating))), 3)
    made = parts.set or parts.owner
    return float(sum(map(_template_gpus, parts.members if made is None else (made,))))


def _template_gpus(made: SetRow | OwnerRow) -> int:
    """The GPUs of the pods that an object declares."""
    if isinstance(made, SetRow):
        return made.replicas * sum(clique.replicas * clique.gpus for clique in made.cliques)
    if made.finished or made.suspended or made.deleting:
        return 0
    count = min(made.replicas, made.parallelism) if made.kind == "Job" else made.replicas
    return count * made.gpus


def _queue_name(parts: WorkloadParts) -> str:
    """The queue; empty for the default queue."""
    gangs, pods = (each.queue for each in parts.gangs), (each.queue for each in parts.pods)
    named = (*gangs, *pods, parts.owner.queue if parts.owner is not None else "")
    return next(filter(None, named), "")


def _created_at(parts: WorkloadParts) -> float | None:
    if parts.set is not None:
        return parts.set.created
    if parts.owner is not None:
        return parts.owner.created
    known = (each.created for each in (*parts.gangs, *parts.pods, *parts.members))
    return min((each for each in known if each is not None), default=None)


def _workload_reason(parts: WorkloadParts, pods: _PodsByLifecycle, state: str) -> str:
    """Why a workload is not in its desired state; empty if it is."""
    made = (parts.owner, parts.set, *parts.members)
    problem = next((each.problem for each in made if each is not None and each.problem), "")
    match state:
        case "Failed" | "Degraded":
            return problem or _failure_message([pod for pod in parts.pods if pod.failing])
        case "Pending" | "Partial":
            return _pending_message(parts.gangs, pods) or problem or NOT_OBSERVED
        case "Creating":
            return problem or _failure_message([pod for pod in parts.pods if pod.failing])
        case "Starting" | "Updating":
            return problem or _count_states(pod for pod in pods.active if not pod.ready)
        case "Completed" | "Suspended":
            return ""
        case _:
            return problem


def _failure_message(failing: Sequence[PodRow]) -> str:
    if not failing:
        return ""
    first = failing[0]
    prefix = f"{len(failing)} pods: " if len(failing) > 1 else ""
    return f"{prefix}{first.state}{f', {first.message}' if first.message else ''}"


def _pending_message(gangs: Iterable[GangRow], pods: _PodsByLifecycle) -> str:
    gang_message = next(
        (gang.pending_reason for gang in gangs if _is_unplaced(gang) and gang.pending_reason), ""
    )
    pod_messages = (pod.message or pod.reason for pod in pods.active if not pod.node)
    return gang_message or next(filter(None, pod_messages), "")


def _count_states(pods: Iterable[PodRow]) -> str:
    states = Counter("not ready" if pod.state == "Running" else pod.state for pod in pods)
    return ", ".join(f"{count} {state}" for state, count in states.items())
