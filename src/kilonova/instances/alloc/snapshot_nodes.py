"""The nodes of a snapshot as strategies get them. Pure."""

from collections.abc import Iterable

from kilonova.api.meta import Metadata
from kilonova.instances.resources import Node, NodeSpec, Taint
from kilonova.scheduler.core.model.nodes import Node as SnapshotNode

_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


def to_wire_nodes(nodes: Iterable[SnapshotNode]) -> list[Node]:
    """Names, labels, taints and cordons; a snapshot has no conditions."""
    return [_to_wire_node(node) for node in nodes]


def _to_wire_node(node: SnapshotNode) -> Node:
    taints = tuple(Taint(each.key, each.effect, each.value) for each in node.taints)
    is_cordoned = any(each.key == _UNSCHEDULABLE for each in node.taints)
    metadata = Metadata(name=node.name, uid="", resource_version="", labels=dict(node.labels))
    return Node(metadata, NodeSpec(taints, is_cordoned))
