"""Writes what was decided: one binding for each pod, those who are in the way evicted before.

The pods of a gang are bound at the same time. A binding that the server cannot take now is tried
again until it does; one that it will never take (the pod is gone, or has a node already) is given
back. So a gang is finished, however long the server is away.
"""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

from kilonova.api.gpus import DEVICES
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    Client,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Invalid,
    NotFound,
)
from kilonova.kube.logging import get_logger
from kilonova.scheduler.core.plan import Placement
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.reading.gpus import devices_text
from kilonova.scheduler.world import World

_log = get_logger(__name__)

_REFUSED = (NotFound, Conflict, Invalid, Forbidden)
_PAUSES = Backoff(0.1, 5.0)


class Binder:
    """A part: binds what it is handed, in the order in which it is."""

    name = "binder"

    def __init__(
        self,
        client: Client,
        world: World,
        clear: Callable[[Placement], Awaitable[bool]],
        done: Callable[[Placement, list[Booking]], None],
        *,
        concurrency: int,
    ) -> None:
        self._client = client
        self._world = world
        self._clear = clear
        self._done = done
        self._slots = asyncio.Semaphore(concurrency)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] | None = None

    def bind(self, placement: Placement) -> None:
        """Begins to write a placement; its bookings are made already."""
        task = asyncio.create_task(self._bind(placement), name=f"bind {placement.gang.name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def run(self) -> None:
        """Waits for a failure that is nobody's but ours, or for the end."""
        self._failed = asyncio.get_running_loop().create_future()
        try:
            await self._failed
        finally:
            for task in self._tasks:
                task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def _bind(self, placement: Placement) -> None:
        if placement.evicted and not await self._clear(placement):
            self._world.give_back(placement.bookings)
            return
        bound = await asyncio.gather(*map(self._bind_pod, placement.bookings))
        failed = [booking for booking, ok in zip(placement.bookings, bound, strict=True) if not ok]
        self._world.give_back(failed)
        self._done(placement, failed)

    async def _bind_pod(self, booking: Booking) -> bool:
        pod = self._world.unbound(booking)
        if pod is None:
            return False
        node = self._world.cluster.snapshot.names[booking.row]
        annotations = {DEVICES: devices_text(booking.devices)} if booking.devices else None
        meta = pod.metadata
        for failures in count(1):
            try:
                async with self._slots:
                    await self._client.bind(
                        meta.name, meta.namespace, node, uid=meta.uid, annotations=annotations
                    )
                return True
            except _REFUSED as error:
                _log.warning("binding refused", pod=booking.pod, node=node, error=str(error))
                return self._world.is_bound(booking)
            except (ConnectionFailed, ApiStatusError) as error:
                _log.warning("binding delayed", pod=booking.pod, node=node, error=str(error))
            await asyncio.sleep(_PAUSES.delay(failures))
            if self._world.unbound(booking) is None:
                return self._world.is_bound(booking)
        raise AssertionError
