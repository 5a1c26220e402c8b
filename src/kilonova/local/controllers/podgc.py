"""Pods that nobody will end: those whose node is gone, and too many that have ended.

Looked for every twenty seconds. A node that is not known gets forty seconds to appear, and is
asked for once more, before its pods are taken to be lost.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.kube import (
    Client,
    Conflict,
    KubeError,
    NotFound,
    Part,
    PatchKind,
    Reflector,
)
from kilonova.kube.logging import get_logger
from kilonova.local.clock import Clock
from kilonova.local.controllers.objects import NODES, PODS, Node, Pod
from kilonova.local.controllers.workshop import Workshop

_EVERY = 20.0
_QUARANTINE = 40.0
_MOST_ENDED = 12_500
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_log = get_logger(__name__)


def pod_collector_parts(workshop: Workshop) -> Iterable[Part]:
    """pod-garbage-collector-controller."""
    client = workshop.account("pod-garbage-collector")
    pods, nodes = workshop.cache(PODS), workshop.cache(NODES)
    return [PodCollector(client, pods, nodes, workshop.clock)]


def surplus(pods: Iterable[Pod], most: int = _MOST_ENDED) -> list[Pod]:
    """Ended pods beyond as many as may stay: evicted ones first, then the oldest."""
    ended = [pod for pod in pods if pod.ended]
    if len(ended) <= most:
        return []
    ended.sort(
        key=lambda pod: (
            not (pod.status.phase == "Failed" and pod.status.reason == "Evicted"),
            pod.metadata.creation_timestamp or "",
            pod.metadata.name,
        )
    )
    return ended[: len(ended) - most]


def stuck(pods: Iterable[Pod], nodes: Mapping[str, Node]) -> list[Pod]:
    """Pods on their way out that no kubelet will end: not placed, or on a node out of service."""
    return [
        pod
        for pod in pods
        if pod.metadata.deletion_timestamp is not None
        and (not pod.spec.node_name or _is_out(nodes.get(pod.spec.node_name)))
    ]


def orphans(pods: Iterable[Pod], gone: Collection[str]) -> list[Pod]:
    """Pods that are bound to a node that is gone."""
    return [pod for pod in pods if pod.spec.node_name in gone] if gone else []


def _is_out(node: Node | None) -> bool:
    if node is None or not any(taint.key == _OUT_OF_SERVICE for taint in node.spec.taints):
        return False
    return not any(
        each.type == "Ready" and each.status == "True" for each in node.status.conditions
    )


class PodCollector:
    """Looks at all pods, now and then."""

    name = "pod garbage collector"

    def __init__(
        self, client: Client, pods: Reflector[Pod], nodes: Reflector[Node], clock: Clock
    ) -> None:
        self._client = client
        self._pods = pods
        self._nodes = nodes
        self._clock = clock
        self._missing: dict[str, float] = {}

    async def run(self) -> None:
        await self._pods.wait_synced()
        await self._nodes.wait_synced()
        while True:
            await asyncio.sleep(_EVERY)
            try:
                await self.collect()
            except KubeError as error:
                _log.warning("will try again", error=str(error))

    async def collect(self) -> None:
        """Force the end of every pod that is due."""
        pods = list(self._pods.store.objects())
        nodes = {node.metadata.name: node for node in self._nodes.store.objects()}
        for pod in surplus(pods):
            await self._end(pod, None)
        for pod in stuck(pods, nodes):
            await self._end(pod, None)
        lost: JsonObject = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": rfc3339(self._clock.now()),
        }
        for pod in orphans(pods, await self._gone(pods, nodes)):
            await self._end(pod, lost)

    async def _gone(self, pods: Sequence[Pod], nodes: Mapping[str, Node]) -> set[str]:
        """Names of nodes that have pods, and have not been there for a while."""
        now = self._clock.monotonic()
        unknown = {pod.spec.node_name for pod in pods} - nodes.keys() - {""}
        self._missing = {name: self._missing.get(name, now) for name in unknown}
        gone: set[str] = set()
        for name, since in self._missing.items():
            if now - since >= _QUARANTINE and not await self._exists(name):
                gone.add(name)
        return gone

    async def _exists(self, name: str) -> bool:
        try:
            await self._client.get(NODES, name)
        except NotFound:
            return False
        return True

    async def _end(self, pod: Pod, condition: JsonObject | None) -> None:
        """Mark a pod as failed, since nobody else will, and delete it without grace."""
        known = pod.metadata
        try:
            if not pod.ended:
                status: JsonObject = {"phase": "Failed"}
                if condition is not None:
                    status["conditions"] = [condition]
                await self._client.patch(
                    PODS,
                    known.name,
                    {"metadata": {"uid": known.uid}, "status": status},
                    known.namespace,
                    kind=PatchKind.STRATEGIC,
                    subresource="status",
                )
            await self._client.delete(PODS, known.name, known.namespace, grace=0, uid=known.uid)
        except (NotFound, Conflict):
            return  # gone, or another of that name
