"""Makes way: tells pods to go, and waits until they are gone.

Their disruption budgets are asked for each of them. Where one says no for too long, or a pod does
not go, those that are still there stay, and the gang that wanted their room waits again.
"""

import asyncio
from itertools import count

from kilonova.kube import ApiStatusError, Backoff, Client, ConnectionFailed, NotFound
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.logging import get_logger
from kilonova.scheduler.core.plan import Placement
from kilonova.scheduler.objects import PODS, Pod
from kilonova.scheduler.world import World

_log = get_logger(__name__)

_PAUSES = Backoff(0.2, 5.0)


class Evictions:
    """Clears the room of placements that need others to go."""

    def __init__(self, client: Client, world: World, events: Recorder, *, patience: float) -> None:
        self._client = client
        self._world = world
        self._events = events
        self._patience = patience

    async def clear(self, placement: Placement) -> bool:
        """Whether all are gone who were in the way of a placement."""
        pods = [pod for unit in placement.evicted for pod in unit.pods]
        self._world.let_go(pods)
        try:
            async with asyncio.timeout(self._patience), asyncio.TaskGroup() as group:
                for pod in pods:
                    group.create_task(self._evict(pod, placement.gang.name))
            return True
        except TimeoutError:
            staying = [pod for pod in pods if self._world.is_here(pod)]
            _log.warning("pods do not make way", gang=placement.gang.name, pods=staying)
            self._world.keep(staying)
            return False

    async def _evict(self, key: str, gang: str) -> None:
        pod = self._world.find(key)
        if pod is None or pod.ended:
            return
        await self._ask_to_go(pod, gang)
        await self._world.gone(key)

    async def _ask_to_go(self, pod: Pod, gang: str) -> None:
        meta = pod.metadata
        for failures in count(1):
            try:
                await self._client.evict(meta.name, meta.namespace, uid=meta.uid)
                about = Reference.to(PODS, meta.name, meta.namespace, meta.uid)
                message = f"makes way for {gang}"
                self._events.event(about, "Preempted", message, warning=True)
                return
            except NotFound:
                return
            except (ConnectionFailed, ApiStatusError) as error:
                _log.info("eviction delayed", pod=pod.key, error=str(error))
            await asyncio.sleep(_PAUSES.delay(failures))
