"""The taint of a node that pulls no images, and which pods tolerate it. Pure.

On the process node a container runs its `command`, or that of its image in the image table, with
the files of the machine. A pod whose command is in an image cannot run there, so the node has a
NoSchedule taint, and admission adds the toleration to pods that select the node or that can run on
it (as ExtendedResourceToleration does for extended resources). Any scheduler then decides by what
is in the API.
"""

from collections.abc import Callable, Mapping

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.nodes import image_taint
from kilonova.api.pods.tolerations import is_tolerated
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.objects.core import (
    Affinity,
    NodeSelector,
    NodeSelectorTerm,
    Taint,
    Toleration,
)
from kilonova.local.objects.node_selectors import matches_node

IMAGE_TAINT = Taint(image_taint.KEY, image_taint.EFFECT, image_taint.VALUE)

_COMMON_LABELS = frozenset(
    f"{prefix}kubernetes.io/{name}" for prefix in ("", "beta.") for name in ("os", "arch")
)
"""Labels that most nodes have: a pod that selects Linux does not select a particular node."""


def needs_toleration(
    spec: JsonObject,
    node: str,
    labels: Mapping[str, str],
    can_run: Callable[[JsonObject], bool],
) -> bool:
    """Whether the toleration has to be added to a pod: it selects the node, or can run there.

    A pod with nodeName set needs none: it is not scheduled.
    """
    if spec.get("nodeName") or has_toleration(spec):
        return False
    return selects_node(spec, node, labels) or can_run(spec)


def has_toleration(spec: JsonObject) -> bool:
    """Whether a pod tolerates the taint by itself."""
    found = nested_objects(spec, "tolerations")
    return is_tolerated(IMAGE_TAINT, msgspec.convert(found, list[Toleration]))


def selects_node(spec: JsonObject, name: str, labels: Mapping[str, str]) -> bool:
    """Whether a pod selects this node by a required label or by name."""
    desired = nested_object(spec, "nodeSelector")
    required = nested_object(spec, "affinity", "nodeAffinity")
    if not desired and not required:
        return False
    if any(labels.get(key) != value for key, value in desired.items()):
        return False
    selector = msgspec.convert(nested_object(spec, "affinity"), Affinity).node_affinity
    terms = selector.required if selector is not None else None
    if terms is not None and not matches_node(terms, name, labels):
        return False
    if not _COMMON_LABELS.issuperset(desired):
        return True
    return terms is not None and any(
        _selects_particular_nodes(term) and matches_node(NodeSelector((term,)), name, labels)
        for term in terms.node_selector_terms
    )


def all_containers(spec: JsonObject) -> list[JsonObject]:
    """The init containers and containers of a pod."""
    return [*nested_objects(spec, "initContainers"), *nested_objects(spec, "containers")]


def _selects_particular_nodes(term: NodeSelectorTerm) -> bool:
    """Whether it requires something that this node has and most nodes lack."""
    negative = ("NotIn", "DoesNotExist")
    return any(each.operator not in negative for each in term.match_fields) or any(
        each.operator not in negative and each.key not in _COMMON_LABELS
        for each in term.match_expressions
    )
