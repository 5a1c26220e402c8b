"""Remembers in the API for whom others have to go, so that a scheduler after us knows it, too.

The pods of a gang that pushes others out name their nodes, in `status.nominatedNodeName`, before
anybody is told to go. Whoever starts finds them: those who leave these nodes make room, and gangs
that were promised it are decided about before all others.
"""

import asyncio
from collections.abc import Iterable
from itertools import count

from kilonova.kube import ApiStatusError, Backoff, Client, Conflict, ConnectionFailed, NotFound
from kilonova.kube.logging import get_logger
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.plan import Placement
from kilonova.scheduler.objects import PODS, Pod
from kilonova.scheduler.world import World

_log = get_logger(__name__)

_PAUSES = Backoff(0.2, 5.0)


class Nominations:
    """Writes them."""

    def __init__(self, client: Client, world: World, slots: asyncio.Semaphore) -> None:
        self._client = client
        self._world = world
        self._slots = slots

    async def write(self, placement: Placement) -> None:
        """Promise the pods of a gang their nodes."""
        names = self._world.cluster.snapshot.names
        wanted = {booking.pod: names[booking.row] for booking in placement.bookings}
        await asyncio.gather(*(self._insist(pod, node) for pod, node in wanted.items()))

    async def withdraw(self, placement: Placement) -> None:
        """Nothing came of it: whoever adds nodes is not to wait for these pods any more."""
        superseded = self._world.is_superseded
        pods = [booking.pod for booking in placement.bookings if not superseded(booking)]
        try:
            await asyncio.gather(*(self._nominate(pod, "") for pod in pods))
        except (ConnectionFailed, ApiStatusError):
            return  # a promise too much is corrected by the next decision

    async def _insist(self, pod: str, node: str) -> None:
        for failures in count(1):
            try:
                await self._nominate(pod, node)
                return
            except (ConnectionFailed, ApiStatusError) as error:
                _log.warning("nomination delayed", pod=pod, node=node, error=str(error))
            await asyncio.sleep(_PAUSES.delay(failures))

    async def _nominate(self, key: str, node: str) -> None:
        pod = self._world.find(key)
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
            return  # it is gone, which the binding will notice


def recall_nominated(world: World) -> list[Gang]:
    """Gangs that were promised room before we began; those who leave it are let go."""
    gangs: list[Gang] = []
    for gang in world.waiting.values():
        nodes = {
            pod.status.nominated_node_name
            for group in gang.groups
            for member in group.members
            if (pod := world.find(member.pod)) is not None and pod.status.nominated_node_name
        }
        if nodes:
            world.let_go([pod.key for node in sorted(nodes) for pod in _leaving(world, node)])
            gangs.append(gang)
    return gangs


def _leaving(world: World, node: str) -> Iterable[Pod]:
    snapshot = world.cluster.snapshot
    if node not in snapshot:
        return
    for key in list(snapshot.pods_on[snapshot.row(node)]):
        pod = world.find(key)
        if pod is not None and pod.spec.node_name and pod.metadata.deletion_timestamp:
            yield pod
