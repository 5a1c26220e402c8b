"""Makes way: tells pods to go, and waits until they are gone.

Their disruption budgets are asked for each of them. Where one says no for too long, those that were
not told to go stay, and the gang that wanted their room waits again. Those that were told and are
terminating still count as leaving: what becomes of them is the business of `releases`.
"""

import asyncio
from collections.abc import Iterable, Mapping
from itertools import count

from kilonova.kube import ApiStatusError, Backoff, Client, Conflict, ConnectionFailed, NotFound
from kilonova.kube.events import Recorder, Reference
from kilonova.kube.logging import get_logger
from kilonova.scheduler.core.plan import Placement
from kilonova.scheduler.metrics import SchedulerMetrics
from kilonova.scheduler.nominations import Nominations
from kilonova.scheduler.objects import PODS, Pod
from kilonova.scheduler.world import World

_log = get_logger(__name__)

_PAUSES = Backoff(0.2, 5.0)

Told = Mapping[str, tuple[str, str]]
"""Reason and message of the event that a pod gets."""


class Evictions:
    """Clears the room of placements that need others to go."""

    def __init__(
        self,
        client: Client,
        world: World,
        nominations: Nominations,
        events: Recorder,
        metrics: SchedulerMetrics,
        *,
        patience: float,
    ) -> None:
        self._client = client
        self._world = world
        self._nominations = nominations
        self._events = events
        self._metrics = metrics
        self._patience = patience

    async def clear(self, placement: Placement, told: Told | None = None) -> bool:
        """Whether all are gone who were in the way of a placement.

        Those whom somebody else told to go are waited for, too, where they leave the same nodes.
        `told` says what pods are told beside that they have to go.
        """
        told = told or {}
        pods = [pod for unit in placement.evicted for pod in unit.pods]
        names = self._world.cluster.snapshot.names
        nodes = {names[booking.row] for booking in placement.bookings}
        if not self._world.leavers.still(pods, nodes):
            return True
        try:
            async with asyncio.timeout(self._patience):
                if pods:
                    await self._nominations.write(placement)
                    async with asyncio.TaskGroup() as group:
                        for pod in pods:
                            words = told.get(pod) or _makes_way(placement.gang.name)
                            group.create_task(self._evict(pod, *words))
                await self._world.leavers.gone(pods, nodes)
            return True
        except TimeoutError:
            # Those whom another gang wants gone are its own business.
            staying = [
                pod
                for pod in self._world.leavers.still(pods, ())
                if (found := self._world.find(pod)) and not found.metadata.deletion_timestamp
            ]
            if staying:
                _log.warning("pods do not make way", gang=placement.gang.name, pods=staying)
                self._world.keep(staying)
                if pods:
                    await self._nominations.withdraw(placement)
            return False

    async def give_up(self, pods: Iterable[Pod], gang: str) -> None:
        """Tells pods of a gang to go that cannot be finished; whoever may not is asked later."""
        message = f"{gang} cannot be finished, and is given back"
        for pod in pods:
            try:
                await self._ask_to_go(pod, "GivenBack", message)
            except (ConnectionFailed, ApiStatusError) as error:
                _log.info("eviction delayed", pod=pod.key, error=str(error))

    async def _evict(self, key: str, reason: str, message: str) -> None:
        pod = self._world.find(key)
        for failures in count(1):
            if pod is None or pod.ended or key not in self._world.leavers:
                return
            try:
                await self._ask_to_go(pod, reason, message)
                return
            except (ConnectionFailed, ApiStatusError) as error:
                _log.info("eviction delayed", pod=key, error=str(error))
            await asyncio.sleep(_PAUSES.delay(failures))

    async def _ask_to_go(self, pod: Pod, reason: str, message: str) -> None:
        meta = pod.metadata
        try:
            await self._client.evict(meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return  # it is gone; another may have its name
        self._metrics.evicted(reason)
        about = Reference.to(PODS, meta.name, meta.namespace, meta.uid)
        self._events.event(about, reason, message, warning=True)


def _makes_way(gang: str) -> tuple[str, str]:
    return "Preempted", f"makes way for {gang}"
