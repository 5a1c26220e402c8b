"""The encoded views of all nodes with GPUs, kept up to date.

A view is encoded again when it is asked for, and only if the scheduler's change log names its row
or its Node has changed since. So an answer costs what has changed, not what there is.
"""

from collections.abc import Callable

import msgspec
import numpy as np

from kilonova.gpu.topologyservice.views import NodeView, build_node_view
from kilonova.kube import Store
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.objects.core_v1 import Node


class ClusterTotals(msgspec.Struct, frozen=True, rename="camel"):
    """How many nodes with GPUs there are, and GPUs."""

    nodes: int
    gpus: int
    free_gpus: int
    unhealthy_gpus: int


class TopologyIndex:
    """Views of the nodes of a scheduler cache, as JSON and as values."""

    def __init__(self, snapshot: Snapshot, nodes: Store[Node]) -> None:
        self._snapshot = snapshot
        self._nodes = nodes
        self._views: dict[str, NodeView] = {}
        self._encoded: dict[str, bytes] = {}
        self._outdated: set[str] = {each.metadata.name for each in nodes.objects()}
        self._position = 0
        self._cluster: bytes | None = None
        self._totals = ClusterTotals(0, 0, 0, 0)
        self._sorted_names: list[str] = []
        nodes.add_event_handler(self._node_changed)

    def node_json(self, name: str) -> bytes | None:
        """The view of a node; None if there is no such node, or it has no GPUs."""
        self._refresh()
        return self._encoded.get(name)

    def cluster_json(self) -> bytes:
        """The views of all nodes, by name, and their totals."""
        self._refresh()
        if self._cluster is None:
            nodes = [self._encoded[name] for name in self._names()] or [b""]
            totals = msgspec.json.encode(self._totals)
            # Megabytes, copied once.
            nodes[0] = b'{"totals":' + totals + b',"nodes":[' + nodes[0]
            nodes[-1] += b"]}"
            self._cluster = b",".join(nodes)
        return self._cluster

    def totals(self) -> ClusterTotals:
        """The sums over all nodes."""
        self._refresh()
        return self._totals

    def view(self, name: str) -> NodeView | None:
        """The view of a node as a value."""
        self._refresh()
        return self._views.get(name)

    def views(self) -> list[NodeView]:
        """The views of all nodes, by name."""
        self._refresh()
        return [self._views[name] for name in self._names()]

    def _names(self) -> list[str]:
        if len(self._sorted_names) != len(self._views):
            self._sorted_names = sorted(self._views)
        return self._sorted_names

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is not None:
            self._outdated.add(node.metadata.name)

    def _refresh(self) -> None:
        changes = self._snapshot.changes
        if changes.position != self._position:
            rows = changes.since(self._position)
            if rows is None:
                rows = np.flatnonzero(self._snapshot.alive[: self._snapshot.size])
            self._outdated.update(self._snapshot.names[row] for row in rows.tolist())
            self._position = changes.position
        if not self._outdated:
            return
        changed = [self._update(name) for name in self._outdated]
        self._outdated.clear()
        if any(changed):
            self._cluster = None

    def _update(self, name: str) -> bool:
        """Builds the view of a node again; whether it has changed."""
        view, old = self._build(name), self._views.get(name)
        encoded = None if view is None else _encode(view)
        if self._encoded.get(name) == encoded:
            return False
        if (view is None) != (old is None):
            self._sorted_names = []
        if view is None or encoded is None:
            del self._views[name], self._encoded[name]
        else:
            self._views[name], self._encoded[name] = view, encoded
        self._totals = _count(_count(self._totals, view, 1), old, -1)
        return True

    def _build(self, name: str) -> NodeView | None:
        node = self._nodes.get(("", name))
        if node is None or name not in self._snapshot:
            return None
        row = self._snapshot.row(name)
        layout = self._snapshot.layout(row)
        if not layout.gpus:
            return None
        count = len(layout.gpus)
        free: list[int] = self._snapshot.gpu_free[row, :count].tolist()
        masks: list[int] = self._snapshot.gpu_mask[row, :count].tolist()
        metadata = node.metadata
        return build_node_view(name, metadata.labels, metadata.annotations, layout, (free, masks))


def _count(totals: ClusterTotals, view: NodeView | None, sign: int) -> ClusterTotals:
    """With the GPUs of a node added, or taken away."""
    if view is None:
        return totals
    unhealthy = sum(not gpu.healthy for gpu in view.gpus)
    return ClusterTotals(
        totals.nodes + sign,
        totals.gpus + sign * len(view.gpus),
        totals.free_gpus + sign * view.free_gpus,
        totals.unhealthy_gpus + sign * unhealthy,
    )


_encode: Callable[[NodeView], bytes] = msgspec.json.Encoder().encode
