"""The taint of a node that pulls no images, and which pods tolerate it. Pure.

On the process node a container runs its `command` with the files of the machine. A pod that leaves
its command to an image cannot run there, so the node carries a NoSchedule taint, and admission adds
the toleration to pods that select the node or that can run on it (as ExtendedResourceToleration
does for extended resources). Any scheduler then decides by what the API says.
"""

from collections.abc import Callable, Mapping

import msgspec

from kilonova.api import imagetaint
from kilonova.api.json import JsonObject
from kilonova.local.controllers.nodematch import selects
from kilonova.local.controllers.nodes.tolerance import tolerates
from kilonova.local.controllers.objects import Affinity, NodeSelector, NodeTerm, Taint, Toleration
from kilonova.local.kinds.walk import objects, part

TAINT = Taint(imagetaint.KEY, imagetaint.EFFECT, imagetaint.VALUE)

_SHARED_LABELS = frozenset(
    f"{prefix}kubernetes.io/{name}" for prefix in ("", "beta.") for name in ("os", "arch")
)
"""Labels that most nodes have: a chart that asks for Linux does not mean a particular node."""


def needs_toleration(
    spec: JsonObject,
    node: str,
    labels: Mapping[str, str],
    can_run: Callable[[JsonObject], bool],
) -> bool:
    """Whether a pod lacks the toleration and should have it: it selects the node, or can run there.

    A pod that names its node needs none: no scheduler looks at it.
    """
    if spec.get("nodeName") or has_toleration(spec):
        return False
    return selects_node(spec, node, labels) or can_run(spec)


def has_toleration(spec: JsonObject) -> bool:
    """Whether a pod tolerates the taint by itself."""
    found = objects(spec, "tolerations")
    return any(tolerates(msgspec.convert(each, Toleration), TAINT) for each in found)


def selects_node(spec: JsonObject, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a pod asks for this node: by a required label, or by name, that it has."""
    wanted = part(spec, "nodeSelector")
    required = part(spec, "affinity", "nodeAffinity")
    if not wanted and not required:
        return False
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    selector = msgspec.convert(part(spec, "affinity"), Affinity).node_affinity
    terms = selector.required if selector is not None else None
    if terms is not None and not selects(terms, name, labels):
        return False
    if not _SHARED_LABELS.issuperset(wanted):
        return True
    return terms is not None and any(
        _is_particular(term) and selects(NodeSelector((term,)), name, labels)
        for term in terms.node_selector_terms
    )


def has_commands(spec: JsonObject) -> bool:
    """Whether no container leaves its command to an image."""
    return all(each.get("command") for each in all_containers(spec))


def all_containers(spec: JsonObject) -> list[JsonObject]:
    """The init containers and containers of a pod."""
    return [*objects(spec, "initContainers"), *objects(spec, "containers")]


def _is_particular(term: NodeTerm) -> bool:
    """Whether it asks for something that a node has, and that not most nodes have."""
    negative = ("NotIn", "DoesNotExist")
    return any(each.operator not in negative for each in term.match_fields) or any(
        each.operator not in negative and each.key not in _SHARED_LABELS
        for each in term.match_expressions
    )
