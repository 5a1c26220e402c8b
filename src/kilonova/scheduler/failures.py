"""Which nodes a workload had better avoid: those on which its pods failed. Pure.

A node is to blame where it says so itself: it lost, evicted or refused the pod, or a GPU of the pod
is not healthy. A program that ends with an error soon after its start may have met a bad node, too.
Of pods that end together the first is taken for the cause; and who fails on many nodes brought the
fault along.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from kilonova.api.grove import names
from kilonova.api.times import parse_time
from kilonova.scheduler.objects import Pod, Terminated

_SOON = timedelta(minutes=10)
"""Who ends so soon after its start did not fail by what it worked on."""
_TOGETHER = 60.0
"""Seconds within which pods of one workload end for the same cause."""
_MANY = 3
"""On more nodes than these a program fails by itself."""

_BY_NODE = frozenset(
    {"Evicted", "NodeLost", "NodeShutdown", "Terminated", "UnexpectedAdmissionError"}
)
"""What kubelets and the node controller call the ends that they are to blame for."""
_TAKEN_BY_NODE = frozenset({"DeletionByTaintManager", "TerminationByKubelet"})
_DISRUPTED = "DisruptionTarget"


@dataclass(frozen=True, slots=True)
class Failure:
    """A pod that failed on a node. `by_node` says that the node is to blame for sure."""

    node: str
    at: float
    by_node: bool


def workload_of(pod: Pod) -> str:
    """Whose pods have their failures in common: a gang's, an owner's, or those of one name."""
    meta = pod.metadata
    gang, owner = meta.labels.get(names.POD_GANG), meta.controller
    if gang:
        return f"{meta.namespace}/{gang}"
    return owner.uid if owner is not None else pod.key


def failure_of(pod: Pod, now: float, *, sick: bool = False) -> Failure | None:
    """How a pod failed, if its node may be to blame; where a GPU of it is not healthy, it is
    `sick`."""
    status, node = pod.status, pod.spec.node_name
    if not node:
        return None
    disrupted = next(
        (each for each in status.conditions if (each.type, each.status) == (_DISRUPTED, "True")),
        None,
    )
    if disrupted is not None:
        if disrupted.reason not in _TAKEN_BY_NODE:
            return None  # somebody told it to go, and the node did nothing
        return Failure(node, _time(disrupted.last_transition_time, now), True)
    if status.phase != "Failed":
        return None
    ends = [each.state.terminated for each in status.container_statuses]
    failed = [end for end in ends if end is not None and end.exit_code != 0]
    at = max((_time(end.finished_at, now) for end in failed), default=_time(status.start_time, now))
    if sick or status.reason in _BY_NODE:
        return Failure(node, at, True)
    return Failure(node, at, False) if any(map(_ended_soon, failed)) else None


def nodes_to_avoid(failures: Iterable[Failure], now: float, lasting: float) -> frozenset[str]:
    """The nodes that a workload avoids after failures, which count for so many seconds."""
    late = sorted(
        (each for each in failures if now - each.at < lasting),
        key=lambda each: (each.at, each.node),
    )
    suspected: set[str] = set()
    began = float("-inf")
    for failure in late:
        if not failure.by_node and failure.at - began > _TOGETHER:
            suspected.add(failure.node)
            began = failure.at
    if len(suspected) > _MANY:
        suspected.clear()
    return frozenset(suspected | {each.node for each in late if each.by_node})


def _ended_soon(end: Terminated) -> bool:
    if end.started_at is None or end.finished_at is None:
        return False
    return parse_time(end.finished_at) - parse_time(end.started_at) <= _SOON


def _time(text: str | None, default: float) -> float:
    return default if text is None else parse_time(text).timestamp()
