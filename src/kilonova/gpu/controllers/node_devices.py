"""The devices of nodes, as the scheduler sees them: converted once for each change of a node."""

from collections.abc import Iterable
from dataclasses import dataclass

from kilonova.api.gpu.annotations import (
    TOPOLOGY,
    InvalidAnnotation,
    Topology,
    parse_topology,
)
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.convert.gpus import convert_node_gpus
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, GpuLayout
from kilonova.scheduler.core.gpu.selection import select_devices
from kilonova.scheduler.core.model.label_columns import NODE_NAME
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.model.requirements import NodeSelectorTerm
from kilonova.scheduler.objects.core_v1 import Node

_NO_LAYOUT = GpuLayout()
_NO_TOPOLOGY = Topology(gpus=())


@dataclass(frozen=True, slots=True)
class DevicesOfNode:
    """The devices of a node. Both parts are empty where its annotation is invalid."""

    layout: GpuLayout
    topology: Topology


class NodeDevices:
    """The devices of nodes, by what they are read from. Equal layouts are one object."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Node, object, DevicesOfNode]] = {}
        self._layouts: dict[GpuLayout, GpuLayout] = {}

    def read(self, node: Node) -> DevicesOfNode:
        """The devices of a node."""
        known = self._known.get(node.metadata.name)
        if known is not None and known[0] is node:
            return known[2]
        annotations, labels = node.metadata.annotations, node.metadata.labels
        text = annotations.get(TOPOLOGY)
        count = _count_devices(node)
        source = (text, None if text is not None else _feature_labels(node), count)
        if known is not None and known[1] == source:
            self._known[node.metadata.name] = node, source, known[2]
            return known[2]
        converted = convert_node_gpus(annotations, labels, count)
        topology = _NO_TOPOLOGY if text is None else parse_topology(text)
        if isinstance(converted, InvalidAnnotation) or isinstance(topology, InvalidAnnotation):
            found = DevicesOfNode(_NO_LAYOUT, _NO_TOPOLOGY)
        else:
            layout = self._layouts.setdefault(converted.layout, converted.layout)
            found = DevicesOfNode(layout, topology)
        self._known[node.metadata.name] = node, source, found
        return found

    def forget(self, node: str) -> None:
        """Drop what is known of a deleted node."""
        self._known.pop(node, None)

    def find_layouts(self, nodes: Iterable[Node], shape: Shape) -> set[GpuLayout]:
        """The different layouts of the nodes that a pod may be placed on, by their labels."""
        return {
            layout
            for node in nodes
            if is_selected(node, shape) and (layout := self.read(node).layout).gpus
        }


def fits_on_idle_node(layout: GpuLayout, request: GpuRequest) -> bool:
    """Whether the devices of a node are enough for a request, if no other pod uses any."""
    idle, masks = [MILLI_PER_GPU] * len(layout.gpus), [0] * len(layout.gpus)
    return select_devices(layout, idle, masks, request) is not None


def is_selected(node: Node, shape: Shape) -> bool:
    """Whether node selector and required node affinity of a pod select a node."""
    if node.metadata.deletion_timestamp is not None:
        return False
    labels = node.metadata.labels
    for key, value in shape.node_selector:
        if labels.get(key) != value:
            return False
    if not shape.required_node_terms:
        return True
    name = {NODE_NAME: node.metadata.name}
    return all(
        any(_term_matches(term, labels, name) for term in terms)
        for terms in shape.required_node_terms
    )


def _term_matches(term: NodeSelectorTerm, labels: dict[str, str], name: dict[str, str]) -> bool:
    if not term.labels and not term.names:
        return False
    return all(each.matches(labels) for each in term.labels) and all(
        each.matches(name) for each in term.names
    )


def _count_devices(node: Node) -> int:
    try:
        return int(node.status.allocatable.get(GPU, 0))
    except ValueError:
        return 0


def _feature_labels(node: Node) -> tuple[tuple[str, str], ...]:
    labels = node.metadata.labels
    return tuple(sorted(each for each in labels.items() if each[0].startswith("nvidia.com/gpu.")))
