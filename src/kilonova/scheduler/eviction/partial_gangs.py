"""Evicts the pods of gangs that never reached their minimum.

A gang is bound as a whole; but pods and nodes may be deleted, and a scheduler may crash in between.
If a gang that was never completely scheduled cannot be completed within a timeout, its bound pods
only block capacity: they are evicted, and the whole gang is pending again.
"""

import asyncio

from kilonova.api.podgang import PodGang
from kilonova.kube import Store
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.eviction.evictor import Evictor
from kilonova.scheduler.objects.keys import split_key

_log = get_logger(__name__)

_CHECKS_PER_TIMEOUT = 6
"""Checks for due gangs within the timeout."""


class PartialGangEvictor:
    """A runnable that evicts partial gangs after a timeout."""

    name = "partial-gangs"

    def __init__(
        self,
        context: SchedulerContext,
        cache: SchedulerCache,
        gangs: Store[PodGang],
        evictor: Evictor,
    ) -> None:
        self._cache = cache
        self._gangs = gangs
        self._evictor = evictor
        self._now = context.now
        self._errors = context.errors
        self._timeout = context.settings.partial_gang_timeout

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._timeout / _CHECKS_PER_TIMEOUT)
            due = self._now().timestamp() - self._timeout
            for name in [name for name, since in self._cache.partial_gangs.items() if since <= due]:
                await self._errors.contain("partial gang", name, self._evict_partial_gang(name))

    async def _evict_partial_gang(self, name: str) -> None:
        gang = self._gangs.get(split_key(name))
        if gang is None or gang.status.last_scheduled:
            return
        pods = self._cache.bound_pods(gang)
        if pods:
            _log.warning(
                "evicting partial gang: minimum not bound before partialGangTimeout",
                gang=name,
                pods=len(pods),
            )
            await self._evictor.evict_partial_gang(pods, name)
