"""Records in the API which nodes were nominated for preempting gangs, for the next leader.

The pods of a preempting gang get `status.nominatedNodeName` before any victim is evicted. A new
leader finds them: pods that terminate on those nodes free their capacity, and nominated gangs are
scheduled before all others.
"""

import asyncio
from collections.abc import Iterable
from itertools import count

from kilonova.kube import ApiStatusError, Backoff, Conflict, ConnectionFailed, NotFound
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.objects.core_v1 import PODS, Pod

_log = get_logger(__name__)

_RETRY_BACKOFF = Backoff(0.2, 5.0)


class NominationWriter:
    """Writes `status.nominatedNodeName`."""

    def __init__(self, context: SchedulerContext, cache: SchedulerCache) -> None:
        self._client = context.client
        self._cache = cache
        self._slots = context.write_slots

    async def nominate_gang(self, placement: GangPlacement) -> None:
        """Nominate the nodes of a gang's pods."""
        names = self._cache.cluster.snapshot.names
        wanted = {pod_placement.pod: names[pod_placement.row] for pod_placement in placement.pods}
        await asyncio.gather(*(self._retry_nomination(pod, node) for pod, node in wanted.items()))

    async def withdraw_nominations(self, placement: GangPlacement) -> None:
        """Remove the nominations of a placement that failed: cluster autoscalers must not count on
        them."""
        superseded = self._cache.is_superseded
        pods = [
            pod_placement.pod for pod_placement in placement.pods if not superseded(pod_placement)
        ]
        try:
            await asyncio.gather(*(self._patch_nomination(pod, "") for pod in pods))
        except (ConnectionFailed, ApiStatusError):
            return  # a stale nomination is corrected by the next decision

    async def _retry_nomination(self, pod: str, node: str) -> None:
        for failures in count(1):
            try:
                await self._patch_nomination(pod, node)
                return
            except (ConnectionFailed, ApiStatusError) as error:
                _log.warning(
                    "nominatedNodeName not written, retrying", pod=pod, node=node, error=str(error)
                )
            await asyncio.sleep(_RETRY_BACKOFF.delay(failures))

    async def _patch_nomination(self, key: str, node: str) -> None:
        pod = self._cache.find_pod(key)
        if pod is None or pod.spec.node_name or pod.status.nominated_node_name == node:
            return
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": {"nominatedNodeName": node or None}}
        try:
            async with self._slots:
                await self._client.patch(
                    PODS, meta.name, patch, meta.namespace, subresource="status"
                )
        except (NotFound, Conflict):
            return  # deleted, which the binding will notice


def restore_nominated_gangs(cache: SchedulerCache) -> list[Gang]:
    """Pending gangs nominated by a previous leader; terminating pods on their nodes are
    released."""
    gangs: list[Gang] = []
    for gang in cache.waiting.values():
        nodes = {
            pod.status.nominated_node_name
            for group in gang.groups
            for member in group.members
            if (pod := cache.find_pod(member.pod)) is not None and pod.status.nominated_node_name
        }
        if nodes:
            cache.release_terminating(
                [pod.key for node in sorted(nodes) for pod in _terminating_pods_on(cache, node)]
            )
            gangs.append(gang)
    return gangs


def _terminating_pods_on(cache: SchedulerCache, node: str) -> Iterable[Pod]:
    snapshot = cache.cluster.snapshot
    if node not in snapshot:
        return
    for key in list(snapshot.pods_on[snapshot.row(node)]):
        pod = cache.find_pod(key)
        if pod is not None and pod.spec.node_name and pod.metadata.deletion_timestamp:
            yield pod
