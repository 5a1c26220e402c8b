"""Binds pods to the nodes that kube-scheduler chose, and gives them devices there.

Whether the node still will do is looked at again, the devices are chosen and booked, all without
giving way; then the binding is written. While nobody knows whether the server took it, because it
does not answer or fails, the booking stays and the write is tried again, also when kube-scheduler
waits no longer: it is told so, and asks again later. So no device is ever given twice.
"""

import asyncio
from itertools import count

from kilonova.api.gpus import DEVICES
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    Client,
    Conflict,
    KubeError,
    Store,
)
from kilonova.kube.election import LeadershipLost
from kilonova.kube.logging import get_logger
from kilonova.scheduler.core.giving import devices_for
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.extender.judging import member_asked, objection
from kilonova.scheduler.extender.wire import BindingAsked
from kilonova.scheduler.objects import PODS, Pod
from kilonova.scheduler.reading.gangs import NotYet
from kilonova.scheduler.reading.gpus import devices_text
from kilonova.scheduler.rejections import is_rejection
from kilonova.scheduler.world import World

_log = get_logger(__name__)

_PAUSES = Backoff(0.1, 5.0)
_PATIENCE = 4.0
"""Seconds; kube-scheduler waits five unless it is told otherwise."""


class Refused(Exception):
    """Why a pod was not bound, in words for its events."""


class Binding:
    """Writes bindings, each as a task of its own."""

    def __init__(self, client: Client, world: World, rooms: Rooms, pods: Store[Pod]) -> None:
        self._client = client
        self._world = world
        self._rooms = rooms
        self._pods = pods
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def bind(self, asked: BindingAsked) -> None:
        """Binds a pod; `Refused` where it cannot be, or is not for certain."""
        try:
            async with asyncio.timeout(_PATIENCE):
                pod = await self._shown(asked)
                if pod.spec.node_name == asked.node:
                    return
                await asyncio.shield(self._begin(pod, asked))
        except TimeoutError:
            raise Refused(self._still_waiting(asked)) from None

    def _still_waiting(self, asked: BindingAsked) -> str:
        if asked.pod in self._under_way:
            return f"the API server has not answered: {asked.pod} is still being bound"
        return f"{asked.pod} is not in the extender's cache yet"

    async def _shown(self, asked: BindingAsked) -> Pod:
        """The pod, as soon as the cache shows it: kube-scheduler may have seen it first."""
        pod = self._find(asked)
        if pod is not None:
            return pod
        changed = asyncio.Event()
        unsubscribe = self._pods.subscribe(lambda old, new: changed.set())
        try:
            while (pod := self._find(asked)) is None:
                await changed.wait()
                changed.clear()
            return pod
        finally:
            unsubscribe()

    def _find(self, asked: BindingAsked) -> Pod | None:
        pod = self._world.find(asked.pod)
        return pod if pod is not None and asked.uid in ("", pod.metadata.uid) else None

    def _begin(self, pod: Pod, asked: BindingAsked) -> asyncio.Task[None]:
        """Books, and begins to write. Nothing is awaited here."""
        if pod.key in self._under_way:
            raise Refused(f"{pod.key} is being bound already")
        booking = self._book(pod, asked.node)
        task = asyncio.create_task(self._write(pod, booking, asked.node), name=f"bind {pod.key}")
        self._under_way[pod.key] = task
        task.add_done_callback(lambda done: self._ended(pod.key, done))
        return task

    def _ended(self, key: str, task: asyncio.Task[None]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            # Whoever asked may not wait any more; then nobody else looks at it.
            task.exception()

    def _book(self, pod: Pod, node: str) -> Booking:
        if pod.spec.node_name:
            raise Refused(f"{pod.key} is on node {pod.spec.node_name} already")
        if pod.metadata.deletion_timestamp or pod.ended:
            raise Refused(f"{pod.key} is being deleted, or has ended")
        member = member_asked(pod)
        if isinstance(member, NotYet):
            raise Refused(member.message)
        snapshot = self._world.cluster.snapshot
        if pod.key in snapshot.bookings:
            raise Refused(f"{pod.key} has a place already")
        against = objection(snapshot, self._rooms, member.shape, node)
        if against:
            raise Refused(f"node {node} will not do any more: {against}")
        row = snapshot.row(node)
        devices = devices_for(snapshot, row, member.shape, 1)[0]
        return self._world.book(pod, member, row, devices)

    async def _write(self, pod: Pod, booking: Booking, node: str) -> None:
        for failures in count(1):
            try:
                await self._send(pod, booking, node, again=failures > 1)
                return
            except KubeError as error:
                if isinstance(error, LeadershipLost) or (
                    isinstance(error, ApiStatusError) and is_rejection(error)
                ):
                    self._world.give_back([booking])
                    raise Refused(f"the binding was refused: {error}") from error
                _log.warning("binding delayed", pod=pod.key, node=node, error=str(error))
            await asyncio.sleep(_PAUSES.delay(failures))

    async def _send(self, pod: Pod, booking: Booking, node: str, *, again: bool) -> None:
        meta, devices = pod.metadata, devices_text(booking.devices)
        annotations = {DEVICES: devices} if devices else None
        try:
            await self._client.bind(
                meta.name, meta.namespace, node, uid=meta.uid, annotations=annotations
            )
        except Conflict:
            # The attempt before, whose answer was lost, may be what is in the way.
            if not again:
                raise
            found = await self._client.get(PODS, meta.name, meta.namespace)
            given = found.metadata.annotations.get(DEVICES, "")
            if (found.metadata.uid, found.spec.node_name, given) != (meta.uid, node, devices):
                raise
