"""Writes what a Node should report: only what differs, and nothing of others."""

from datetime import datetime

from kilonova.gpu.agent.desire.node import DesiredNode, build_node_patch, build_taint_patch
from kilonova.gpu.agent.metrics import AgentMetrics
from kilonova.gpu.agent.resources import NODES, Node
from kilonova.kube import Client, Conflict, NotFound, PatchType


class NodeWriter:
    """Writes Nodes. A Node that is gone, or was replaced, is left alone."""

    def __init__(self, client: Client, metrics: AgentMetrics) -> None:
        self._client = client
        self._metrics = metrics

    async def write(self, node: Node, desired: DesiredNode, now: datetime) -> Node:
        """Write what differs, and return the Node as it is then.

        `Conflict` where the taints changed meanwhile: the Node is then reconciled again.
        """
        current = node
        body = build_node_patch(node, desired, now)
        try:
            if body is not None:
                # One write for metadata and status: readers see both or neither.
                self._metrics.node_writes.inc()
                current = await self._client.patch(
                    NODES,
                    node.metadata.name,
                    body,
                    subresource="status",
                    patch_type=PatchType.STRATEGIC,
                )
            taints = build_taint_patch(current, desired)
            if taints is not None:
                self._metrics.node_writes.inc()
                current = await self._client.patch(NODES, node.metadata.name, taints)
        except NotFound:
            return node
        except Conflict:
            if current.metadata.uid == node.metadata.uid:
                raise
        return current
