"""Which nodes a workload should avoid, derived from its failed pods. Pure.

A node is at fault if it reports so (it lost, evicted or rejected the pod), or if a GPU of the pod
is unhealthy. A container that fails soon after its start may have met a bad node, too. Of pods that
fail together the first counts as the cause; and a workload that fails on many nodes is at fault
itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from kilonova.api.grove import names
from kilonova.api.times import parse_time
from kilonova.scheduler.objects.core_v1 import ContainerStateTerminated, Pod

_STARTUP_FAILURE_WINDOW = timedelta(minutes=10)
"""A container that ends within this time after its start counts as a startup failure."""
_SAME_CAUSE_SECONDS = 60.0
"""Seconds within which failures of one workload have the same cause."""
_MAX_SUSPECTED_NODES = 3
"""With more suspected nodes than this the workload itself is at fault."""

_NODE_FAULT_REASONS = frozenset(
    {"Evicted", "NodeLost", "NodeShutdown", "Terminated", "UnexpectedAdmissionError"}
)
"""Reasons set by kubelets and the node lifecycle controller for failures of the node."""
_NODE_DISRUPTION_REASONS = frozenset({"DeletionByTaintManager", "TerminationByKubelet"})
_DISRUPTION_TARGET = "DisruptionTarget"


@dataclass(frozen=True, slots=True)
class PodFailure:
    """A pod that failed on a node; with `is_node_fault` the node is certainly at fault."""

    node: str
    at: float
    is_node_fault: bool


def workload_of(pod: Pod) -> str:
    """The scope in which failures are shared: the gang, the controller, or the pod name."""
    meta = pod.metadata
    gang, owner = meta.labels.get(names.POD_GANG), meta.controller
    if gang:
        return f"{meta.namespace}/{gang}"
    return owner.uid if owner is not None else pod.key


def detect_failure(pod: Pod, now: float, *, has_unhealthy_gpu: bool = False) -> PodFailure | None:
    """The failure of a pod, if its node may be at fault."""
    status, node = pod.status, pod.spec.node_name
    if not node:
        return None
    disrupted = next(
        (
            each
            for each in status.conditions
            if (each.type, each.status) == (_DISRUPTION_TARGET, "True")
        ),
        None,
    )
    if disrupted is not None:
        if disrupted.reason not in _NODE_DISRUPTION_REASONS:
            return None  # evicted for a cause other than the node
        return PodFailure(node, _timestamp(disrupted.last_transition_time, now), True)
    if status.phase != "Failed":
        return None
    terminated = [each.state.terminated for each in status.container_statuses]
    failed = [state for state in terminated if state is not None and state.exit_code != 0]
    at = max(
        (_timestamp(state.finished_at, now) for state in failed),
        default=_timestamp(status.start_time, now),
    )
    if has_unhealthy_gpu or status.reason in _NODE_FAULT_REASONS:
        return PodFailure(node, at, True)
    return PodFailure(node, at, False) if any(map(_failed_at_startup, failed)) else None


def nodes_to_avoid(failures: Iterable[PodFailure], now: float, retention: float) -> frozenset[str]:
    """The nodes to avoid after these failures, which count for `retention` seconds."""
    recent = sorted(
        (each for each in failures if now - each.at < retention),
        key=lambda each: (each.at, each.node),
    )
    suspected: set[str] = set()
    cause_start = float("-inf")
    for failure in recent:
        if not failure.is_node_fault and failure.at - cause_start > _SAME_CAUSE_SECONDS:
            suspected.add(failure.node)
            cause_start = failure.at
    if len(suspected) > _MAX_SUSPECTED_NODES:
        suspected.clear()
    return frozenset(suspected | {each.node for each in recent if each.is_node_fault})


def _failed_at_startup(state: ContainerStateTerminated) -> bool:
    if state.started_at is None or state.finished_at is None:
        return False
    return parse_time(state.finished_at) - parse_time(state.started_at) <= _STARTUP_FAILURE_WINDOW


def _timestamp(text: str | None, default: float) -> float:
    return default if text is None else parse_time(text).timestamp()
