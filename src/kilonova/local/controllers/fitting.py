"""Where a pod fits: resources, node selectors, required affinity, taints, cordons. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from kilonova.kube import Resource
from kilonova.local.controllers.nodematch import selects
from kilonova.local.controllers.objects import (
    Affinity,
    NodeSelector,
    PodResourceClaim,
    PodResourceClaimStatus,
    Volume,
)
from kilonova.local.quantity import from_json

SCHEDULER_NAME = "default-scheduler"

Amounts = dict[str, int]
"""Resources in thousandths."""


class _Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None


class _Requests(msgspec.Struct, frozen=True, gc=False):
    requests: dict[str, str | int | float] = {}


class _Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resources: _Requests = _Requests()
    restart_policy: str = ""


class _Toleration(msgspec.Struct, frozen=True, gc=False):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class _SchedulingGate(msgspec.Struct, frozen=True, gc=False):
    name: str


class _PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    scheduler_name: str = SCHEDULER_NAME
    scheduling_gates: tuple[_SchedulingGate, ...] = ()
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[_Toleration, ...] = ()
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    overhead: dict[str, str | int | float] = {}
    resources: _Requests | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()


class _PodCondition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    phase: str = "Pending"
    conditions: tuple[_PodCondition, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class PlacedPod(msgspec.Struct, gc=False):
    """The fields of a pod that decide where it fits."""

    metadata: _Metadata
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def unschedulable(self) -> str | None:
        """Why its status says that it cannot be placed; None if it does not say so."""
        for each in self.status.conditions:
            if (each.type, each.status, each.reason) == ("PodScheduled", "False", "Unschedulable"):
                return each.message
        return None


class _Taint(msgspec.Struct, frozen=True, gc=False):
    key: str
    effect: str
    value: str = ""


_CORDON = _Taint("node.kubernetes.io/unschedulable", "NoSchedule")


class _NodeSpec(msgspec.Struct, frozen=True, gc=False):
    unschedulable: bool = False
    taints: tuple[_Taint, ...] = ()


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str
    status: str


class _NodeStatus(msgspec.Struct, frozen=True, gc=False):
    allocatable: dict[str, str | int | float] = {}
    conditions: tuple[_Condition, ...] = ()


class PlaceableNode(msgspec.Struct, gc=False):
    """The fields of a node that decide what fits on it."""

    metadata: _Metadata
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node, with what it has in numbers: read once per change of the node."""

    node: PlaceableNode
    capacity: Amounts

    @classmethod
    def of(cls, node: PlaceableNode) -> "Candidate":
        return cls(node, _amounts(node.status.allocatable))


PODS = Resource("", "v1", "pods", "Pod", True, PlacedPod)
NODES = Resource("", "v1", "nodes", "Node", False, PlaceableNode)


@dataclass(frozen=True, slots=True)
class Unplaceable:
    """Why no node will do: how many nodes said no, by reason."""

    nodes: int
    reasons: Mapping[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        counted = ", ".join(f"{count} {reason}" for reason, count in sorted(self.reasons.items()))
        return f"0/{self.nodes} nodes are available" + (f": {counted}." if counted else ".")


Objection = Callable[[PlaceableNode], str | None]
"""Why a pod cannot be on a node; None where it can."""


def choose_node(
    pod: PlacedPod,
    candidates: Iterable[Candidate],
    used: Mapping[str, Amounts],
    objection: Objection = lambda _: None,
) -> str | Unplaceable:
    """The name of the node with the largest share of its scarcest wanted resource left over.

    Nodes that would rather not have the pod come after all others.
    """
    wanted = pod_requests(pod)
    reasons: Counter[str] = Counter()
    nodes = 0
    best: tuple[int, float, str] | None = None
    for candidate in candidates:
        nodes += 1
        name = candidate.node.metadata.name
        reason = _objection(pod, candidate.node) or objection(candidate.node)
        if reason is None:
            room = _room(wanted, candidate.capacity, used.get(name, {}))
            if isinstance(room, str):
                reason = room
            else:
                offer = (_reluctance(pod, candidate.node), -room, name)
                best = offer if best is None else min(best, offer)
        if reason is not None:
            reasons[reason] += 1
    return best[2] if best is not None else Unplaceable(nodes, reasons)


def pod_requests(pod: PlacedPod) -> Amounts:
    """What a pod asks for: the most that it needs at any time of its life.

    Init containers run one after the other, each beside the sidecars started before it; then
    all containers and sidecars run together. What the pod asks for as a whole counts instead.
    """
    spec = pod.spec
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers:
        amounts = _amounts(container.resources.requests)
        if container.restart_policy == "Always":
            _add(sidecars, amounts)
        else:
            for name, amount in amounts.items():
                peak[name] = max(peak.get(name, 0), amount + sidecars.get(name, 0))
    total = dict(sidecars)
    for container in spec.containers:
        _add(total, _amounts(container.resources.requests))
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
    if spec.resources is not None:
        total.update(_amounts(spec.resources.requests))
    _add(total, _amounts(spec.overhead))
    total["pods"] = 1000
    return total


def _add(into: Amounts, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        into[name] = into.get(name, 0) + amount


def _amounts(quantities: Mapping[str, str | int | float]) -> Amounts:
    return {name: from_json(text).milli for name, text in quantities.items()}


def _room(wanted: Amounts, capacity: Amounts, used: Amounts) -> float | str:
    room = 1.0
    for name, amount in wanted.items():
        total = capacity.get(name, 0)
        left = total - used.get(name, 0) - amount
        if amount and left < 0:
            return "Too many pods" if name == "pods" else f"Insufficient {name}"
        if total:
            room = min(room, left / total)
    return room


def _objection(pod: PlacedPod, node: PlaceableNode) -> str | None:
    if node.spec.unschedulable and not _tolerated(pod, _CORDON):
        return "node(s) were unschedulable"
    if not any(each.type == "Ready" and each.status == "True" for each in node.status.conditions):
        return "node(s) were not ready"
    for taint in node.spec.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not _tolerated(pod, taint):
            return "node(s) had untolerated taint(s)"
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return "node(s) didn't match Pod's node affinity/selector"
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity and affinity.required and not is_selected(node, affinity.required):
        return "node(s) didn't match Pod's node affinity/selector"
    return None


def _reluctance(pod: PlacedPod, node: PlaceableNode) -> int:
    """How many taints ask for other pods."""
    soft = (taint for taint in node.spec.taints if taint.effect == "PreferNoSchedule")
    return sum(not _tolerated(pod, taint) for taint in soft)


def _tolerated(pod: PlacedPod, taint: _Taint) -> bool:
    return any(_tolerates(toleration, taint) for toleration in pod.spec.tolerations)


def _tolerates(toleration: _Toleration, taint: _Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def is_selected(node: PlaceableNode, selector: NodeSelector) -> bool:
    """Whether a selector of nodes means this one."""
    return selects(selector, node.metadata.name, node.metadata.labels)
