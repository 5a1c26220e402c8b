"""Deletes pods that no kubelet will delete: orphaned ones, and terminated ones beyond a limit.

Runs every twenty seconds. A node that is not in the cache gets forty seconds to appear, and is
looked up on the server, before its pods are considered orphaned.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.kube import (
    Client,
    Conflict,
    KubeError,
    NotFound,
    PatchType,
    Reflector,
    Runnable,
)
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.clock import Clock
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.objects.core import NODES, PODS, Node, Pod

_GC_PERIOD = 20.0
_NODE_QUARANTINE = 40.0
_TERMINATED_POD_THRESHOLD = 12_500
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_log = get_logger(__name__)


def pod_gc_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """pod-garbage-collector-controller."""
    client = context.client_for("pod-garbage-collector")
    pods, nodes = context.informer(PODS), context.informer(NODES)
    return [PodGarbageCollector(client, pods, nodes, context.clock)]


def select_terminated_surplus(
    pods: Iterable[Pod], threshold: int = _TERMINATED_POD_THRESHOLD
) -> list[Pod]:
    """Terminated pods beyond the limit: evicted ones first, then the oldest."""
    ended = [pod for pod in pods if pod.is_terminal]
    if len(ended) <= threshold:
        return []
    ended.sort(
        key=lambda pod: (
            not (pod.status.phase == "Failed" and pod.status.reason == "Evicted"),
            pod.metadata.creation_timestamp or "",
            pod.metadata.name,
        )
    )
    return ended[: len(ended) - threshold]


def select_stuck_terminating(pods: Iterable[Pod], nodes: Mapping[str, Node]) -> list[Pod]:
    """Terminating pods that no kubelet will delete: unbound, or on a node out of service."""
    return [
        pod
        for pod in pods
        if pod.metadata.deletion_timestamp is not None
        and (not pod.spec.node_name or _is_out_of_service(nodes.get(pod.spec.node_name)))
    ]


def select_orphaned(pods: Iterable[Pod], deleted_nodes: Collection[str]) -> list[Pod]:
    """Pods that are bound to a deleted node."""
    return [pod for pod in pods if pod.spec.node_name in deleted_nodes] if deleted_nodes else []


def _is_out_of_service(node: Node | None) -> bool:
    if node is None or not any(taint.key == _OUT_OF_SERVICE for taint in node.spec.taints):
        return False
    return not any(
        each.type == "Ready" and each.status == "True" for each in node.status.conditions
    )


class PodGarbageCollector:
    """Checks all pods periodically."""

    name = "pod garbage collector"

    def __init__(
        self, client: Client, pods: Reflector[Pod], nodes: Reflector[Node], clock: Clock
    ) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._clock = clock
        self._missing_nodes: dict[str, float] = {}

    async def run(self) -> None:
        await self._pods.wait_for_sync()
        await self._nodes.wait_for_sync()
        while True:
            await asyncio.sleep(_GC_PERIOD)
            try:
                await self.collect()
            except KubeError as error:
                _log.warning("pod garbage collection failed, will retry", error=str(error))

    async def collect(self) -> None:
        """Force the deletion of every pod that is due."""
        pods = list(self._pods.store.objects())
        nodes = {node.metadata.name: node for node in self._nodes.store.objects()}
        for pod in select_terminated_surplus(pods):
            await self._force_delete(pod, None)
        for pod in select_stuck_terminating(pods, nodes):
            await self._force_delete(pod, None)
        lost: JsonObject = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": format_rfc3339(self._clock.now()),
        }
        for pod in select_orphaned(pods, await self._find_deleted_nodes(pods, nodes)):
            await self._force_delete(pod, lost)

    async def _find_deleted_nodes(self, pods: Sequence[Pod], nodes: Mapping[str, Node]) -> set[str]:
        """Names of nodes that have pods and have been absent for a while."""
        now = self._clock.monotonic()
        unknown = {pod.spec.node_name for pod in pods} - nodes.keys() - {""}
        self._missing_nodes = {name: self._missing_nodes.get(name, now) for name in unknown}
        deleted: set[str] = set()
        for name, since in self._missing_nodes.items():
            if now - since >= _NODE_QUARANTINE and not await self._node_exists(name):
                deleted.add(name)
        return deleted

    async def _node_exists(self, name: str) -> bool:
        try:
            await self._client.get(NODES, name)
        except NotFound:
            return False
        return True

    async def _force_delete(self, pod: Pod, condition: JsonObject | None) -> None:
        """Mark a pod as failed, and delete it without grace period."""
        metadata = pod.metadata
        try:
            if not pod.is_terminal:
                status: JsonObject = {"phase": "Failed"}
                if condition is not None:
                    status["conditions"] = [condition]
                await self._client.patch(
                    PODS,
                    metadata.name,
                    {"metadata": {"uid": metadata.uid}, "status": status},
                    metadata.namespace,
                    patch_type=PatchType.STRATEGIC,
                    subresource="status",
                )
            await self._client.delete(
                PODS, metadata.name, metadata.namespace, grace_period_seconds=0, uid=metadata.uid
            )
        except (NotFound, Conflict):
            return  # deleted, or replaced by another of that name
