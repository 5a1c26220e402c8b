"""Nodes: allocatable resources, labels, taints and GPU layout."""

from typing import cast

from kilonova.api.gpu.annotations import InvalidAnnotation
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.convert.gpus import convert_node_gpus
from kilonova.scheduler.convert.quantities import convert_quantities
from kilonova.scheduler.core.model.node_table import MAX_GPUS
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.taints import Effect, Taint
from kilonova.scheduler.objects.core_v1 import Node as WireNode

_UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


def convert_node(node: WireNode) -> tuple[Node, InvalidAnnotation | None]:
    """Convert a node; also returns an invalid topology annotation, whose devices count as unknown.

    A cordon becomes a taint, as in Kubernetes: pods may tolerate it.
    """
    metadata, spec = node.metadata, node.spec
    allocatable = convert_quantities(node.status.allocatable)
    count = max(0, min(allocatable.get(GPU, 0), MAX_GPUS))
    gpus = convert_node_gpus(metadata.annotations, metadata.labels, count)
    problem = None
    if isinstance(gpus, InvalidAnnotation):
        problem, gpus = gpus, convert_node_gpus({}, metadata.labels, count)
        assert not isinstance(gpus, InvalidAnnotation)
    taints = [Taint(t.key, cast("Effect", t.effect), t.value) for t in spec.taints]
    if spec.unschedulable and _UNSCHEDULABLE_TAINT not in taints:
        taints.append(_UNSCHEDULABLE_TAINT)
    converted = Node(
        metadata.name, allocatable, metadata.labels, tuple(taints), gpus.layout, gpus.ids
    )
    return converted, problem
