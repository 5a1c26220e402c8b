"""Evicts victims through the Eviction API and waits until they have terminated.

The API server checks their disruption budgets. If a budget blocks an eviction for longer than the
timeout, the victims that were not evicted stay, and the preempting gang is pending again. Victims
that terminate already stay nominated; `victim_waiter` handles them.
"""

import asyncio
from collections.abc import Iterable, Mapping
from itertools import count

from kilonova.kube import ApiStatusError, Backoff, Conflict, ConnectionFailed, NotFound
from kilonova.kube.events import ObjectReference
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.eviction.nominations import NominationWriter
from kilonova.scheduler.objects.core_v1 import PODS, Pod

_log = get_logger(__name__)

_RETRY_BACKOFF = Backoff(0.2, 5.0)

EvictionEvents = Mapping[str, tuple[str, str]]
"""Reason and message of the event of each evicted pod."""


class Evictor:
    """Evicts the victims of placements."""

    def __init__(
        self, context: SchedulerContext, cache: SchedulerCache, nominations: NominationWriter
    ) -> None:
        self._client = context.client
        self._cache = cache
        self._nominations = nominations
        self._events = context.recorder
        self._metrics = context.metrics
        self._eviction_timeout = context.settings.eviction_timeout

    async def evict_victims(
        self, placement: GangPlacement, events_by_pod: EvictionEvents | None = None
    ) -> bool:
        """Evict the victims of a placement; whether all of them have terminated.

        Pods that terminate on the same nodes for other causes are waited for, too. `events_by_pod`
        replaces the default event of the named pods.
        """
        events_by_pod = events_by_pod or {}
        pods = [pod for unit in placement.victims for pod in unit.pods]
        names = self._cache.cluster.snapshot.names
        nodes = {names[pod_placement.row] for pod_placement in placement.pods}
        if not self._cache.terminating.remaining(pods, nodes):
            return True
        try:
            async with asyncio.timeout(self._eviction_timeout):
                if pods:
                    await self._nominations.nominate_gang(placement)
                    async with asyncio.TaskGroup() as group:
                        for pod in pods:
                            event = events_by_pod.get(pod) or _preempted_event(placement.gang.name)
                            group.create_task(self._evict(pod, *event))
                await self._cache.terminating.wait_until_gone(pods, nodes)
            return True
        except TimeoutError:
            # Victims of another gang are handled by that gang.
            staying = [
                pod
                for pod in self._cache.terminating.remaining(pods, ())
                if (found := self._cache.find_pod(pod)) and not found.metadata.deletion_timestamp
            ]
            if staying:
                _log.warning(
                    "victims not evicted before evictionTimeout",
                    gang=placement.gang.name,
                    pods=staying,
                )
                self._cache.restore_victims(staying)
                if pods:
                    await self._nominations.withdraw_nominations(placement)
            return False

    async def evict_partial_gang(self, pods: Iterable[Pod], gang: str) -> None:
        """Evict the bound pods of a partial gang; evictions that fail are retried by the caller's
        next check."""
        message = f"gang {gang} is partially bound and cannot be completed"
        for pod in pods:
            try:
                await self._request_eviction(pod, "PartialGangEvicted", message)
            except (ConnectionFailed, ApiStatusError) as error:
                _log.info("eviction failed, retrying", pod=pod.key, error=str(error))

    async def _evict(self, key: str, reason: str, message: str) -> None:
        pod = self._cache.find_pod(key)
        for failures in count(1):
            if pod is None or pod.ended or key not in self._cache.terminating:
                return
            try:
                await self._request_eviction(pod, reason, message)
                return
            except (ConnectionFailed, ApiStatusError) as error:
                _log.info("eviction failed, retrying", pod=key, error=str(error))
            await asyncio.sleep(_RETRY_BACKOFF.delay(failures))

    async def _request_eviction(self, pod: Pod, reason: str, message: str) -> None:
        meta = pod.metadata
        try:
            await self._client.evict(meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return  # deleted; another pod may have its name
        self._metrics.count_eviction(reason)
        reference = ObjectReference.to(PODS, meta.name, meta.namespace, meta.uid)
        self._events.event(reference, reason, message, warning=True)


def _preempted_event(gang: str) -> tuple[str, str]:
    return "Preempted", f"preempted by {gang}"
