"""The health of each member. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kilonova.api.gpu.annotations import (
    DEVICES,
    TOPOLOGY,
    InvalidAnnotation,
    parse_devices,
    parse_topology,
)
from kilonova.api.pods.tolerations import is_tolerated
from kilonova.api.times import parse_time
from kilonova.instances.controllers.instance.observed import FindNode, ObservedAllocation
from kilonova.instances.repair import CONDUCTOR, MemberHealth, MemberState
from kilonova.instances.resources import Node, Pod
from kilonova.kube.status import find_condition, is_condition_true

_JUST_BOUND = timedelta(seconds=5)
"""Nodes and pods are observed separately: the state of a node to which a pod was just bound may be
an older one."""
_FAILED_AT_ONCE = timedelta(seconds=10)
"""Pods that fail so soon after their creation are not replaced before."""
_MAX_SUSPECTED_NODES = 3
_OUTAGE_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
_REMOVAL_TAINTS = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "cloud.google.com/impending-node-termination",
        "karpenter.sh/disrupted",
        "kilonova.dev/interruption",
        "node.kubernetes.io/out-of-service",
        "node.kubernetes.io/unschedulable",
    }
)
"""Taints of nodes that are about to be taken away, whatever their effect."""

_Judgement = tuple[MemberHealth, str]


@dataclass(frozen=True, slots=True)
class Assessment:
    """The members of an allocation, and when to look again without any change."""

    members: tuple[MemberState, ...]
    recheck_after: float | None = None


def assess_members(
    allocation: ObservedAllocation,
    instance: str,
    agents: int,
    find_node: FindNode,
    now: datetime,
    deadline: float,
) -> Assessment:
    """The state of every member of an allocation."""
    judge = _Judge(find_node, now, timedelta(seconds=deadline))
    was_created = was_complete(allocation)
    record = allocation.record
    members: list[MemberState] = []
    for member in (*range(agents), CONDUCTOR):
        name = record.get_pod_name(instance, member)
        pod = allocation.pods.get(name)
        if pod is None:
            health, reason = _judge_absence(name, was_created=was_created)
        else:
            health, reason = judge.judge(pod)
        if member == CONDUCTOR and health == "NodeDraining" and pod is not None:
            # Two conductors would serve at the same time.
            health = "Ready" if is_ready(pod) else "Starting"
        members.append(
            MemberState(
                member,
                health,
                "" if pod is None else pod.spec.node_name,
                reason,
                is_ready=pod is not None and health in ("Ready", "NodeDraining") and is_ready(pod),
                has_replacement=member in record.replacements,
            )
        )
    return Assessment(tuple(_excuse_nodes(members)), judge.recheck_after)


def _excuse_nodes(members: Sequence[MemberState]) -> Iterator[MemberState]:
    """Where members on many nodes do not become ready, the program is at fault, not the nodes."""
    suspected = {each.node for each in members if each.health == "Unready"}
    for each in members:
        is_excused = each.health == "Unready" and len(suspected) > _MAX_SUSPECTED_NODES
        yield replace(each, health="Starting") if is_excused else each


def was_complete(allocation: ObservedAllocation) -> bool:
    """Whether all pods that the gang lists were created: those that do not exist were deleted."""
    found = find_condition(allocation.gang.status.conditions, "Initialized")
    return (
        found is not None
        and found.status == "True"
        and found.observed_generation == allocation.gang.metadata.generation
    )


def is_ready(pod: Pod) -> bool:
    """Whether a pod is ready, and not being deleted."""
    return pod.metadata.deletion_timestamp is None and is_condition_true(
        pod.status.conditions, "Ready"
    )


def describe_draining(node: Node, pod: Pod) -> str:
    """Why a node is about to be taken away from a pod; empty if it is not."""
    if node.metadata.deletion_timestamp is not None:
        return f"node {node.metadata.name} is being deleted"
    if node.spec.unschedulable:
        return f"node {node.metadata.name} is cordoned"
    for taint in node.spec.taints:
        evicts = taint.effect == "NoExecute" and taint.key not in _OUTAGE_TAINTS
        if evicts or taint.key in _REMOVAL_TAINTS:
            if taint.effect == "NoExecute" and is_tolerated(taint, pod.spec.tolerations):
                continue
            return f"node {node.metadata.name} has the taint {taint.key}:{taint.effect}"
    return ""


class _Judge:
    def __init__(self, find_node: FindNode, now: datetime, deadline: timedelta) -> None:
        self._find_node = find_node
        self._now = now
        self._deadline = deadline
        self.recheck_after: float | None = None

    def judge(self, pod: Pod) -> _Judgement:
        """The health of a member by its pod, and why."""
        name = pod.metadata.name
        if pod.metadata.deletion_timestamp is not None:
            return "Missing", _describe_deletion(pod)
        if pod.status.phase in ("Failed", "Succeeded"):
            created = parse_time(pod.metadata.creation_timestamp)
            if self._is_waiting(created, _FAILED_AT_ONCE):
                return "Starting", ""
            return "Failed", f"pod {name} {_describe_end(pod)}"
        if not pod.spec.node_name:
            return "Pending", ""
        return self._judge_by_node(pod) or self._judge_readiness(pod)

    def _judge_by_node(self, pod: Pod) -> _Judgement | None:
        node = self._find_node(pod.spec.node_name)
        outage = _describe_outage(node, pod)
        if outage or node is None:
            bound = _get_transition_time(pod, "PodScheduled")
            if bound is not None and self._is_waiting(bound, _JUST_BOUND):
                return None
            return "NodeLost", outage
        if (problem := _describe_devices(node, pod)) != "":
            return "AcceleratorUnhealthy", problem
        draining = describe_draining(node, pod)
        return ("NodeDraining", draining) if draining else None

    def _judge_readiness(self, pod: Pod) -> _Judgement:
        if is_ready(pod):
            return "Ready", ""
        since = _get_transition_time(pod, "Ready")
        restarted = any(each.restart_count for each in pod.status.container_statuses)
        if restarted and since is not None and not self._is_waiting(since, self._deadline):
            return "Unready", f"pod {pod.metadata.name} restarts and does not become ready"
        return "Starting", ""

    def _is_waiting(self, since: datetime, time: timedelta) -> bool:
        """Whether a time has not passed since; if not, it is looked at again when it has."""
        left = (since + time - self._now).total_seconds()
        if left <= 0:
            return False
        self.recheck_after = min(left, self.recheck_after or left)
        return True


def _judge_absence(name: str, *, was_created: bool) -> _Judgement:
    return ("Missing", f"pod {name} was deleted") if was_created else ("Pending", "")


def _describe_outage(node: Node | None, pod: Pod) -> str:
    name = pod.spec.node_name
    if node is None:
        return f"node {name} was deleted"
    ready = find_condition(node.status.conditions, "Ready")
    if ready is None or ready.status == "True":
        return ""
    if ready.status == "False" and is_ready(pod):
        # The kubelet reports a problem, and that the pod is ready: it may pass.
        return ""
    return f"node {name} is not ready"


def _describe_devices(node: Node, pod: Pod) -> str:
    """Which accelerators of a pod are unhealthy; empty if none is known to be."""
    text = pod.metadata.annotations.get(DEVICES)
    topology = node.metadata.annotations.get(TOPOLOGY)
    if not text or not topology or '"healthy":false' not in topology.replace(" ", ""):
        return ""
    devices, known = parse_devices(text), parse_topology(topology)
    if isinstance(devices, InvalidAnnotation) or isinstance(known, InvalidAnnotation):
        return ""
    used: Sequence[int] = sorted({each.index for each in devices})
    for index in used:
        if index < len(known.gpus) and not known.gpus[index].healthy:
            reason = known.gpus[index].reason
            return f"accelerator {index} of node {node.metadata.name} is unhealthy" + (
                f": {reason}" if reason else ""
            )
    return ""


def _describe_deletion(pod: Pod) -> str:
    found = find_condition(pod.status.conditions, "DisruptionTarget")
    if found is not None and found.status == "True":
        return f"pod {pod.metadata.name} was evicted ({found.reason})"
    return f"pod {pod.metadata.name} was deleted"


def _describe_end(pod: Pod) -> str:
    what = "has failed" if pod.status.phase == "Failed" else "has ended"
    return f"{what} ({pod.status.reason})" if pod.status.reason else what


def _get_transition_time(pod: Pod, type_: str) -> datetime | None:
    found = find_condition(pod.status.conditions, type_)
    text = None if found is None else found.last_transition_time
    return None if text is None else parse_time(text)
