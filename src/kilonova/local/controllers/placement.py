"""Enough placement that a pod runs: the node with the most room among those that fit.

Holds the place of the scheduler. It knows resources, node selectors, required node affinity,
taints and cordons, and nothing of gangs or topology.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from kilonova.kube import Client, Conflict, Controller, NotFound, Reflector, Resource, Result, Watch
from kilonova.kube.identity import Key
from kilonova.local.quantity import QuantityError, from_json

SCHEDULER_NAME = "default-scheduler"

Amounts = dict[str, int]
"""Resources in thousandths."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    labels: dict[str, str] = {}
    deletion_timestamp: str | None = None


class _Requests(msgspec.Struct, frozen=True):
    requests: dict[str, str | int | float] = {}


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    resources: _Requests = _Requests()
    restart_policy: str = ""


class _Toleration(msgspec.Struct, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class _Expression(msgspec.Struct, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class _Term(msgspec.Struct, frozen=True, rename="camel"):
    match_expressions: tuple[_Expression, ...] = ()
    match_fields: tuple[_Expression, ...] = ()


class _NodeSelector(msgspec.Struct, frozen=True, rename="camel"):
    node_selector_terms: tuple[_Term, ...] = ()


class _NodeAffinity(msgspec.Struct, frozen=True):
    required: _NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class _Affinity(msgspec.Struct, frozen=True, rename="camel"):
    node_affinity: _NodeAffinity | None = None


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    scheduler_name: str = SCHEDULER_NAME
    scheduling_gates: tuple[dict[str, str], ...] = ()
    node_selector: dict[str, str] = {}
    affinity: _Affinity | None = None
    tolerations: tuple[_Toleration, ...] = ()
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    overhead: dict[str, str | int | float] = {}


class _PodStatus(msgspec.Struct, frozen=True):
    phase: str = "Pending"


class PlacedPod(msgspec.Struct):
    """The fields of a pod that decide where it fits."""

    metadata: _Metadata
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _Taint(msgspec.Struct, frozen=True):
    key: str
    effect: str
    value: str = ""


class _NodeSpec(msgspec.Struct, frozen=True):
    unschedulable: bool = False
    taints: tuple[_Taint, ...] = ()


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _NodeStatus(msgspec.Struct, frozen=True):
    allocatable: dict[str, str | int | float] = {}
    conditions: tuple[_Condition, ...] = ()


class PlaceableNode(msgspec.Struct):
    """The fields of a node that decide what fits on it."""

    metadata: _Metadata
    spec: _NodeSpec = _NodeSpec()
    status: _NodeStatus = _NodeStatus()


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


def choose_node(
    pod: PlacedPod, nodes: list[PlaceableNode], used: Mapping[str, Amounts]
) -> str | Unplaceable:
    """The name of the node with the largest share of its scarcest wanted resource left over."""
    wanted = pod_requests(pod)
    reasons: dict[str, int] = {}
    best: tuple[float, str] | None = None
    for node in nodes:
        reason = _objection(pod, node)
        if reason is None:
            room = _room(wanted, node, used.get(node.metadata.name, {}))
            if isinstance(room, str):
                reason = room
            elif best is None or (-room, node.metadata.name) < best:
                best = (-room, node.metadata.name)
        if reason is not None:
            reasons[reason] = reasons.get(reason, 0) + 1
    return best[1] if best is not None else Unplaceable(len(nodes), reasons)


def pod_requests(pod: PlacedPod) -> Amounts:
    """What a pod asks for: its containers together, or its greediest init container."""
    total: Amounts = {"pods": 1000}
    for container in pod.spec.containers:
        for name, amount in _amounts(container.resources.requests).items():
            total[name] = total.get(name, 0) + amount
    for container in pod.spec.init_containers:
        lasts = container.restart_policy == "Always"
        for name, amount in _amounts(container.resources.requests).items():
            total[name] = total.get(name, 0) + amount if lasts else max(total.get(name, 0), amount)
    for name, amount in _amounts(pod.spec.overhead).items():
        total[name] = total.get(name, 0) + amount
    return total


def _amounts(quantities: Mapping[str, str | int | float]) -> Amounts:
    return {name: from_json(text).milli for name, text in quantities.items()}


def _room(wanted: Amounts, node: PlaceableNode, used: Amounts) -> float | str:
    capacity = _amounts(node.status.allocatable)
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
    if node.spec.unschedulable:
        return "node(s) were unschedulable"
    if not any(each.type == "Ready" and each.status == "True" for each in node.status.conditions):
        return "node(s) were not ready"
    for taint in node.spec.taints:
        tolerated = any(_tolerates(each, taint) for each in pod.spec.tolerations)
        if taint.effect in ("NoSchedule", "NoExecute") and not tolerated:
            return "node(s) had untolerated taint(s)"
    labels = node.metadata.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return "node(s) didn't match Pod's node affinity/selector"
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity and affinity.required and not _selects(affinity.required, node):
        return "node(s) didn't match Pod's node affinity/selector"
    return None


def _tolerates(toleration: _Toleration, taint: _Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _selects(selector: _NodeSelector, node: PlaceableNode) -> bool:
    fields = {"metadata.name": node.metadata.name}
    return any(
        (term.match_expressions or term.match_fields)
        and all(_holds(each, node.metadata.labels) for each in term.match_expressions)
        and all(_holds(each, fields) for each in term.match_fields)
        for term in selector.node_selector_terms
    )


def _holds(expression: _Expression, values: Mapping[str, str]) -> bool:
    value = values.get(expression.key)
    match expression.operator:
        case "In":
            return value in expression.values
        case "NotIn":
            return value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or not value.lstrip("-").isdigit():
                return False
            bound = int(expression.values[0])
            return int(value) > bound if expression.operator == "Gt" else int(value) < bound
        case _:
            return False


class Placement:
    """Places pods that name the default scheduler. Keeps what is used per node as pods change."""

    def __init__(
        self, client: Client, pods: Reflector[PlacedPod], nodes: Reflector[PlaceableNode]
    ) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._used: dict[str, Amounts] = {}
        self._counted: dict[str, tuple[str, Amounts]] = {}
        self._waiting: set[Key] = set()
        self._controller = Controller("placement", self._place, [Watch(pods)])
        pods.store.subscribe(self._count)
        nodes.store.subscribe(self._node_changed)

    @property
    def controller(self) -> Controller:
        return self._controller

    def _node_changed(self, _old: PlaceableNode | None, _new: PlaceableNode | None) -> None:
        for key in self._waiting:
            self._controller.queue.add(key)

    def _count(self, old: PlacedPod | None, new: PlacedPod | None) -> None:
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._release(old.metadata.uid)
        if new is None or not new.spec.node_name:
            return
        if new.status.phase in ("Succeeded", "Failed"):
            self._release(new.metadata.uid)
        elif new.metadata.uid not in self._counted:
            self._charge(new.metadata.uid, new.spec.node_name, pod_requests(new))

    def _charge(self, uid: str, node: str, amounts: Amounts) -> None:
        self._counted[uid] = (node, amounts)
        used = self._used.setdefault(node, {})
        for name, amount in amounts.items():
            used[name] = used.get(name, 0) + amount

    def _release(self, uid: str) -> None:
        node, amounts = self._counted.pop(uid, ("", {}))
        used = self._used.get(node)
        if used is None:
            return
        for name, amount in amounts.items():
            used[name] -= amount
        for key in self._waiting:
            self._controller.queue.add(key)

    async def _place(self, key: Key) -> Result | None:
        await self._nodes.wait_synced()
        pod = self._pods.store.get(key)
        self._waiting.discard(key)
        if pod is None or pod.spec.node_name or pod.metadata.deletion_timestamp:
            return None
        if pod.spec.scheduler_name != SCHEDULER_NAME or pod.spec.scheduling_gates:
            return None
        if pod.metadata.uid in self._counted:
            return None
        try:
            chosen = choose_node(pod, list(self._nodes.store.objects()), self._used)
        except QuantityError as error:
            chosen = Unplaceable(0, {f"unreadable request ({error})": 1})
        if isinstance(chosen, Unplaceable):
            self._waiting.add(key)
            await self._tell(pod, str(chosen))
            return None
        self._charge(pod.metadata.uid, chosen, pod_requests(pod))
        try:
            await self._client.bind(
                pod.metadata.name, pod.metadata.namespace, chosen, uid=pod.metadata.uid
            )
        except (NotFound, Conflict):
            self._release(pod.metadata.uid)
        except BaseException:
            self._release(pod.metadata.uid)
            raise
        return None

    async def _tell(self, pod: PlacedPod, reason: str) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": reason,
        }
        await self._client.apply(
            PODS,
            pod.metadata.name,
            {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}},
            pod.metadata.namespace,
            subresource="status",
        )
