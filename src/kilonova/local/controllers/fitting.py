"""Where a pod fits: resources, node selectors, required affinity, taints, cordons. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from kilonova.api.quantity import from_json
from kilonova.local.controllers.nodematch import selects
from kilonova.local.controllers.nodes.tolerance import tolerates
from kilonova.local.controllers.objects import Node, NodeSelector, Pod, Taint

Amounts = dict[str, int]
"""Resources in thousandths."""


_CORDON = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node, with what it has in numbers: read once per change of the node."""

    node: Node
    capacity: Amounts

    @classmethod
    def of(cls, node: Node) -> "Candidate":
        return cls(node, _amounts(node.status.allocatable))


@dataclass(frozen=True, slots=True)
class Unplaceable:
    """Why no node will do: how many nodes said no, by reason."""

    nodes: int
    reasons: Mapping[str, int] = field(default_factory=dict[str, int])

    def __str__(self) -> str:
        counted = ", ".join(f"{count} {reason}" for reason, count in sorted(self.reasons.items()))
        return f"0/{self.nodes} nodes are available" + (f": {counted}." if counted else ".")


Objection = Callable[[Node], str | None]
"""Why a pod cannot be on a node; None where it can."""


def choose_node(
    pod: Pod,
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


def pod_requests(pod: Pod) -> Amounts:
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


def _objection(pod: Pod, node: Node) -> str | None:
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


def _reluctance(pod: Pod, node: Node) -> int:
    """How many taints ask for other pods."""
    soft = (taint for taint in node.spec.taints if taint.effect == "PreferNoSchedule")
    return sum(not _tolerated(pod, taint) for taint in soft)


def _tolerated(pod: Pod, taint: Taint) -> bool:
    return any(tolerates(toleration, taint) for toleration in pod.spec.tolerations)


def is_selected(node: Node, selector: NodeSelector) -> bool:
    """Whether a selector of nodes means this one."""
    return selects(selector, node.metadata.name, node.metadata.labels)
