"""Adopts what the previous leader decided last.

The informers of a new leader may be slightly behind. Capacity that the previous leader used
meanwhile must not be used again: bindings are listed once more from the API, reserved nodes and
capacity holds are restored from what it wrote.
"""

import asyncio
from collections.abc import Iterable
from itertools import count

from kilonova.kube import ApiStatusError, Backoff, Client, ConnectionFailed, NotFound
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.scheduler.cache.assembly import CacheSubsystem
from kilonova.scheduler.cache.informers import Informers
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.consolidation.consolidator import Consolidator
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.objects.core_v1 import PODS, Pod
from kilonova.scheduler.reservations.controller import wait_for_reservations

_log = get_logger(__name__)

_CACHE_BACKOFF = Backoff(0.1, 1.0)
_RETRY_BACKOFF = Backoff(0.5, 10.0)


class LeaderTakeover:
    """Completes the caches of a new leader before its first cycle."""

    def __init__(
        self,
        context: SchedulerContext,
        informers: Informers,
        caches: CacheSubsystem,
        consolidator: Consolidator,
    ) -> None:
        self._client = context.client
        self._scheduler_names = context.settings.scheduler_names
        self._informers = informers
        self._cache = caches.scheduler_cache
        self._gangs = caches.pod_groups.gangs
        self._consolidator = consolidator

    async def run(self) -> None:
        """Wait until the caches show everything that the previous leader wrote."""
        await self._informers.wait_for_sync()
        await adopt_existing_bindings(self._client, self._cache, self._scheduler_names)
        await wait_for_reservations(self._client, self._informers.reservations.store)
        self._cache.reservations.restore_reserved_nodes()
        self._consolidator.restore_holds(
            list(self._informers.pods.store.objects()), self._gangs.objects()
        )


async def adopt_existing_bindings(
    client: Client, cache: SchedulerCache, scheduler_names: Iterable[str]
) -> None:
    """Count all bound pods of these schedulers."""
    for failures in count(1):
        try:
            for name in sorted(scheduler_names):
                await _adopt_bindings_of_scheduler(client, cache, name)
            return
        except (ConnectionFailed, ApiStatusError) as error:
            _log.warning("existing bindings not listed, retrying", error=str(error))
        await asyncio.sleep(_RETRY_BACKOFF.delay(failures))


async def _adopt_bindings_of_scheduler(client: Client, cache: SchedulerCache, name: str) -> None:
    fields = f"spec.schedulerName={name},spec.nodeName!="
    listing = await client.list(PODS, field_selector=fields, on_undecodable=lambda _: None)
    for pod in listing.items:
        await _adopt_binding(client, cache, pod)


async def _adopt_binding(client: Client, cache: SchedulerCache, pod: Pod) -> None:
    for failures in count(1):
        if cache.adopt_bound_pod(pod) or not await _pod_exists(client, pod):
            return
        await asyncio.sleep(_CACHE_BACKOFF.delay(failures))


async def _pod_exists(client: Client, pod: Pod) -> bool:
    try:
        found = await client.get(PODS, pod.metadata.name, pod.metadata.namespace)
    except NotFound:
        return False
    return found.metadata.uid == pod.metadata.uid
