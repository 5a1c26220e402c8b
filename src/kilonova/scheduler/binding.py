"""Writes what was decided: one binding for each pod. Before, those who are in the way are evicted,
and claims get their devices and volumes.

The pods of a gang are bound at the same time, once all of them are still there and those who leave
their nodes are gone. A binding that the server cannot take now is tried again until it does, so a
gang is finished, however long the server is away. One that it will never take is given back: the
pod is gone or has a node already, or the server rejects it, or fails at it again and again though
it answers otherwise. What it said is told, and the pod tries other nodes first for a while.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count

from kilonova.api.gpus import DEVICES
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    Client,
    Conflict,
    ConnectionFailed,
    NotFound,
)
from kilonova.kube.logging import get_logger
from kilonova.scheduler.allocations import Allocations
from kilonova.scheduler.containment import ErrorReporter
from kilonova.scheduler.core.plan import Placement
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.metrics import SchedulerMetrics
from kilonova.scheduler.objects import PODS, Pod
from kilonova.scheduler.reading.gpus import devices_text
from kilonova.scheduler.rejections import Rejection, is_rejection
from kilonova.scheduler.volumepromises import VolumePromises
from kilonova.scheduler.world import World

_log = get_logger(__name__)

_PAUSES = Backoff(0.1, 5.0)
_MOST_ERRORS = 12
"""So often the server may fail at a binding, within about half a minute, before it is given up."""

Done = Callable[[Placement, list[Booking], list[Rejection]], None]
"""Hears of a placement that was written, but for some bookings, and what the server rejected."""


class Binder:
    """A part: binds what it is handed, in the order in which it is."""

    name = "binder"

    def __init__(
        self,
        client: Client,
        world: World,
        make_way: Callable[[Placement], Awaitable[bool | Placement]],
        done: Done,
        slots: asyncio.Semaphore,
        metrics: SchedulerMetrics,
        allocations: Allocations,
        volumes: VolumePromises,
        errors: ErrorReporter,
    ) -> None:
        self._client = client
        self._world = world
        self._make_way = make_way
        self._done = done
        self._slots = slots
        self._allocations = allocations
        self._volumes = volumes
        self._metrics = metrics
        self._errors = errors
        self._tasks: dict[asyncio.Task[None], bool] = {}
        """What is under way, and whether it writes bindings already."""
        self._changed = asyncio.Event()
        self._stopping = False

    @property
    def under_way(self) -> int:
        """How many gangs are being bound."""
        return len(self._tasks)

    def bind(self, placement: Placement) -> None:
        """Begins to write a placement; its bookings are made already."""
        task = asyncio.create_task(
            self._bind_contained(placement), name=f"bind {placement.gang.name}"
        )
        self._tasks[task] = False
        task.add_done_callback(self._ended)

    def stop(self) -> None:
        """Lets `run` return when the bindings are written that it has begun to write."""
        self._stopping = True
        self._changed.set()

    async def run(self) -> None:
        """Waits for the end."""
        try:
            while not (self._stopping and not any(self._tasks.values())):
                await self._changed.wait()
                self._changed.clear()
        finally:
            for task in self._tasks:
                task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task)
        self._changed.set()

    async def _bind_contained(self, placement: Placement) -> None:
        """Binds; an unexpected error costs this gang its turn. Pods whose binding was written
        before the error keep their capacity, and victims that were not told to go stay."""
        try:
            await self._bind(placement)
        except Exception as error:
            self._errors.report("binding", placement.gang.name, error)
            names = self._world.cluster.snapshot.names
            failed = [
                booking
                for booking in placement.bookings
                if (pod := self._world.find(booking.pod)) is None
                or not await self._is_there_after_all(pod, names[booking.row])
            ]
            self._give_back(placement, failed)
            self._world.keep_untold(placement)

    async def _bind(self, placement: Placement) -> None:
        cleared = not self._stopping and await self._make_way(placement)
        if isinstance(cleared, Placement):
            self.bind(cleared)  # elsewhere, without those who did not go
            return
        if not cleared or not self._holds(placement):
            self._give_back(placement, list(placement.bookings))
            return
        # Devices may take long to be given up, and volumes to be made; who stops meanwhile leaves
        # nothing half done.
        written = await self._allocations.write(placement.bookings)
        written = written and await self._volumes.write(placement.bookings)
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = True
        failed, rejected = list(placement.bookings), list[Rejection]()
        if written and self._holds(placement):
            self._world.begin_binding(placement.bookings)
            if len(placement.bookings) == 1:
                ends = [await self._bind_measured(placement.bookings[0])]
            else:
                ends = await asyncio.gather(*map(self._bind_measured, placement.bookings))
            ended = zip(placement.bookings, ends, strict=True)
            failed = [booking for booking, end in ended if end is not True]
            rejected = [end for end in ends if isinstance(end, Rejection)]
        await self._allocations.take_back(failed)
        self._give_back(placement, failed, rejected)

    def _holds(self, placement: Placement) -> bool:
        """Whether a decision that may be old by now is still a good one."""
        return all(
            self._world.unbound(booking) is not None and self._world.fits(booking)
            for booking in placement.bookings
        )

    def _give_back(
        self,
        placement: Placement,
        failed: list[Booking],
        rejected: list[Rejection] | None = None,
    ) -> None:
        self._world.end_binding(placement, failed)
        self._done(placement, failed, rejected or [])

    async def _bind_measured(self, booking: Booking) -> bool | Rejection:
        since = time.perf_counter()
        end = await self._bind_pod(booking)
        self._metrics.binding_ended(end is True, time.perf_counter() - since)
        return end

    async def _bind_pod(self, booking: Booking) -> bool | Rejection:
        """Whether a pod was bound; what the server says if it will not bind it there."""
        pod = self._world.unbound(booking)
        if pod is None:
            return False
        node = self._world.cluster.snapshot.names[booking.row]
        annotations = {DEVICES: devices_text(booking.devices)} if booking.devices else None
        meta = pod.metadata
        errors = 0
        for failures in count(1):
            try:
                async with self._slots:
                    await self._client.bind(
                        meta.name, meta.namespace, node, uid=meta.uid, annotations=annotations
                    )
                return True
            except (NotFound, Conflict) as error:
                _log.warning("binding refused", pod=booking.pod, node=node, error=str(error))
                return await self._is_there_after_all(pod, node)
            except ApiStatusError as error:
                errors += error.code >= 500
                if is_rejection(error) or errors >= _MOST_ERRORS:
                    _log.warning("binding rejected", pod=booking.pod, node=node, error=str(error))
                    there = await self._is_there_after_all(pod, node)
                    return there or Rejection(booking.pod, node, str(error))
                _log.warning("binding delayed", pod=booking.pod, node=node, error=str(error))
            except ConnectionFailed as error:
                _log.warning("binding delayed", pod=booking.pod, node=node, error=str(error))
            await asyncio.sleep(_PAUSES.delay(failures))
            if self._world.unbound(booking) is None or not self._world.fits(booking):
                return await self._is_there_after_all(pod, node)
        raise AssertionError

    async def _is_there_after_all(self, pod: Pod, node: str) -> bool:
        """Whether a pod has its node, from a try whose answer was lost: the cache may be behind."""
        meta = pod.metadata
        for failures in count(1):
            try:
                found = await self._client.get(PODS, meta.name, meta.namespace)
                return found.metadata.uid == meta.uid and found.spec.node_name == node
            except NotFound:
                return False
            except (ConnectionFailed, ApiStatusError):
                await asyncio.sleep(_PAUSES.delay(failures))
        raise AssertionError
