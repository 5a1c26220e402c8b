"""Which nodes should run a DaemonSet's pods. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.pods.tolerations import is_tolerated
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.objects import image_taint
from kilonova.local.objects.core import Affinity, Node, Pod, Taint, Toleration
from kilonova.local.objects.node_selectors import matches_node

_NODE = "node.kubernetes.io"
_DAEMON_TOLERATIONS = (
    (f"{_NODE}/not-ready", "NoExecute"),
    (f"{_NODE}/unreachable", "NoExecute"),
    (f"{_NODE}/disk-pressure", "NoSchedule"),
    (f"{_NODE}/memory-pressure", "NoSchedule"),
    (f"{_NODE}/pid-pressure", "NoSchedule"),
    (f"{_NODE}/unschedulable", "NoSchedule"),
)
_HOST_NETWORK_TOLERATIONS = ((f"{_NODE}/network-unavailable", "NoSchedule"),)


class _SchedulingConstraints(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()


def add_daemon_tolerations(spec: JsonObject) -> JsonObject:
    """A pod spec with the tolerations of all daemon pods."""
    daemon_tolerations = _DAEMON_TOLERATIONS + (
        _HOST_NETWORK_TOLERATIONS if spec.get("hostNetwork") else ()
    )
    added = [
        {"key": key, "operator": "Exists", "effect": effect} for key, effect in daemon_tolerations
    ]
    own = [each for each in nested_objects(spec, "tolerations") if each not in added]
    return {**spec, "tolerations": own + added}


def pin_to_node(spec: JsonObject, node: str) -> JsonObject:
    """A pod spec with a node affinity for one node, so that the scheduler binds it there."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = nested_object(spec, "affinity")
    node_affinity = {
        **nested_object(affinity, "nodeAffinity"),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
    }
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def target_node(pod: Pod) -> str | None:
    """The node that a daemon pod is bound to or pinned to."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    for term in affinity.required.node_selector_terms if affinity and affinity.required else ():
        for field in term.match_fields:
            if (field.key, field.operator) == ("metadata.name", "In") and len(field.values) == 1:
                return field.values[0]
    return None


@dataclass(frozen=True, slots=True)
class NodeDecision:
    """Whether a pod should be started on a node, and whether an existing one may continue."""

    should_run: bool
    should_continue_running: bool


class NodeEligibility:
    """Evaluates nodes for one template, which is parsed once.

    `can_run` indicates whether this machine has the programs that the containers of a pod execute.
    """

    def __init__(self, template: JsonObject, can_run: Callable[[JsonObject], bool]) -> None:
        spec = add_daemon_tolerations(nested_object(template, "spec"))
        self._constraints = msgspec.convert(spec, _SchedulingConstraints)
        self._spec = spec
        self._can_run = can_run

    def evaluate(self, node: Node) -> NodeDecision:
        """The decision for a node. Free capacity is left to the scheduler."""
        constraints = self._constraints
        if constraints.node_name not in ("", node.metadata.name) or not self._matches_affinity(
            node
        ):
            return NodeDecision(False, False)
        untolerated = {
            taint.effect for taint in node.spec.taints if not self._is_tolerated(taint, node)
        }
        should_continue = "NoExecute" not in untolerated
        return NodeDecision(should_continue and "NoSchedule" not in untolerated, should_continue)

    def _matches_affinity(self, node: Node) -> bool:
        labels = node.metadata.labels
        constraints = self._constraints
        if any(labels.get(key) != value for key, value in constraints.node_selector.items()):
            return False
        affinity = constraints.affinity.node_affinity if constraints.affinity else None
        required = affinity.required if affinity else None
        return required is None or matches_node(required, node.metadata.name, labels)

    def _is_tolerated(self, taint: Taint, node: Node) -> bool:
        if is_tolerated(taint, self._constraints.tolerations):
            return True
        # The toleration that admission adds to a pod is not in the template yet. A pod of this
        # template would get it for the node that it is pinned to if it can run there.
        return taint.key == image_taint.IMAGE_TAINT.key and (
            image_taint.selects_node(self._spec, node.metadata.name, node.metadata.labels)
            or self._can_run(self._spec)
        )
