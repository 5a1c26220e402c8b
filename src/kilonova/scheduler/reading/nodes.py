"""Nodes, from what the API server holds of them to what placement knows of them."""

from typing import cast

from kilonova.api.gpus import Unreadable
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.snapshot import GPU, MOST_GPUS
from kilonova.scheduler.core.taints import Effect, Taint
from kilonova.scheduler.objects import Node as WireNode
from kilonova.scheduler.reading.amounts import amounts_of
from kilonova.scheduler.reading.gpus import layout_of

_CORDON = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


def node_of(node: WireNode) -> tuple[Node, Unreadable | None]:
    """A node, and what could not be read of it: its devices then count as unknown ones.

    A cordon is a taint, as it is for Kubernetes: pods may tolerate it.
    """
    metadata, spec = node.metadata, node.spec
    allocatable = amounts_of(node.status.allocatable)
    count = max(0, min(allocatable.get(GPU, 0), MOST_GPUS))
    layout = layout_of(metadata.annotations, metadata.labels, count)
    problem = None
    if isinstance(layout, Unreadable):
        problem, layout = layout, layout_of({}, metadata.labels, count)
        assert not isinstance(layout, Unreadable)
    taints = [Taint(t.key, cast("Effect", t.effect), t.value) for t in spec.taints]
    if spec.unschedulable and _CORDON not in taints:
        taints.append(_CORDON)
    return Node(metadata.name, allocatable, metadata.labels, tuple(taints), layout), problem
