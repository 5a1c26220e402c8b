"""Which nodes a DaemonSet's pods belong on. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.controllers.nodematch import selects
from kilonova.local.controllers.nodes import imagetaint
from kilonova.local.controllers.nodes.tolerance import tolerates
from kilonova.local.controllers.objects import Affinity, Node, Pod, Taint, Toleration
from kilonova.local.kinds.walk import objects, part

_NODE = "node.kubernetes.io"
_ENDURED = (
    (f"{_NODE}/not-ready", "NoExecute"),
    (f"{_NODE}/unreachable", "NoExecute"),
    (f"{_NODE}/disk-pressure", "NoSchedule"),
    (f"{_NODE}/memory-pressure", "NoSchedule"),
    (f"{_NODE}/pid-pressure", "NoSchedule"),
    (f"{_NODE}/unschedulable", "NoSchedule"),
)
_WITHOUT_NETWORK = ((f"{_NODE}/network-unavailable", "NoSchedule"),)


class _Wishes(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()


def with_tolerations(spec: JsonObject) -> JsonObject:
    """A pod's spec with what all daemons put up with."""
    endured = _ENDURED + (_WITHOUT_NETWORK if spec.get("hostNetwork") else ())
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in endured]
    own = [each for each in objects(spec, "tolerations") if each not in added]
    return {**spec, "tolerations": own + added}


def pinned_to(spec: JsonObject, node: str) -> JsonObject:
    """A pod's spec that only fits one node, so that the scheduler places it there."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = part(spec, "affinity")
    node_affinity = {
        **part(affinity, "nodeAffinity"),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
    }
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def target_node(pod: Pod) -> str | None:
    """The node that a daemon's pod is on, or is meant for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    for term in affinity.required.node_selector_terms if affinity and affinity.required else ():
        for field in term.match_fields:
            if (field.key, field.operator) == ("metadata.name", "In") and len(field.values) == 1:
                return field.values[0]
    return None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a pod should be started on a node, and whether one that is there may stay."""

    run: bool
    stay: bool


class Eligibility:
    """Judges nodes for one template; what the template says is read once.

    `can_run` says whether this machine has what the containers of a pod execute.
    """

    def __init__(self, template: JsonObject, can_run: Callable[[JsonObject], bool]) -> None:
        spec = with_tolerations(part(template, "spec"))
        self._wishes = msgspec.convert(spec, _Wishes)
        self._spec = spec
        self._can_run = can_run

    def of(self, node: Node) -> Verdict:
        """The verdict on a node. Whether it has room is for the scheduler to say."""
        wishes = self._wishes
        if wishes.node_name not in ("", node.metadata.name) or not self._is_wanted(node):
            return Verdict(False, False)
        untolerated = {
            taint.effect for taint in node.spec.taints if not self._is_tolerated(taint, node)
        }
        stay = "NoExecute" not in untolerated
        return Verdict(stay and "NoSchedule" not in untolerated, stay)

    def _is_wanted(self, node: Node) -> bool:
        labels = node.metadata.labels
        wishes = self._wishes
        if any(labels.get(key) != value for key, value in wishes.node_selector.items()):
            return False
        affinity = wishes.affinity.node_affinity if wishes.affinity else None
        required = affinity.required if affinity else None
        return required is None or selects(required, node.metadata.name, labels)

    def _is_tolerated(self, taint: Taint, node: Node) -> bool:
        if any(tolerates(toleration, taint) for toleration in self._wishes.tolerations):
            return True
        # What admission adds to a pod is not in the template yet. A pod of this template would get
        # it for the node that it is pinned to; only the template tells whether it can run there.
        return taint.key == imagetaint.TAINT.key and (
            imagetaint.selects_node(self._spec, node.metadata.name, node.metadata.labels)
            or self._can_run(self._spec)
        )
