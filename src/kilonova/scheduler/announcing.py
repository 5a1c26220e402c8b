"""Says on pods that move where room is held for those after them, so that a scheduler after us
knows it, too: in a condition, for a pod that has a node may not nominate another."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import count

from kilonova.api.times import rfc3339
from kilonova.kube import ApiStatusError, Backoff, Client, Conflict, ConnectionFailed, NotFound
from kilonova.kube.client import PatchKind
from kilonova.kube.logging import get_logger
from kilonova.scheduler.objects import PODS, Pod
from kilonova.scheduler.world import World

_log = get_logger(__name__)

_PAUSES = Backoff(0.2, 5.0)
_MOVING = "scheduling.kilonova.dev/Moving"


def announced(pod: Pod) -> str:
    """The node on which room is held for the pod after this one; empty if none is."""
    said = (each for each in pod.status.conditions if each.type == _MOVING)
    return next((each.message for each in said if each.status == "True"), "")


class Announcements:
    """Writes them."""

    def __init__(
        self,
        client: Client,
        world: World,
        slots: asyncio.Semaphore,
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._world = world
        self._slots = slots
        self._now = now

    async def write(self, nodes: Mapping[str, str]) -> None:
        """Say of each pod on which node room is held."""
        await asyncio.gather(*(self._insist(pod, "True", node) for pod, node in nodes.items()))

    async def withdraw(self, pods: Iterable[str]) -> None:
        """They stay after all."""
        await asyncio.gather(*(self._insist(pod, "False", "stays") for pod in pods))

    async def _insist(self, key: str, status: str, message: str) -> None:
        for failures in count(1):
            pod = self._world.find(key)
            if pod is None:
                return
            try:
                await self._say(pod, status, message)
                return
            except (NotFound, Conflict):
                return  # it is gone, and another may have its name
            except (ConnectionFailed, ApiStatusError) as error:
                _log.warning("announcement delayed", pod=key, error=str(error))
            await asyncio.sleep(_PAUSES.delay(failures))

    async def _say(self, pod: Pod, status: str, message: str) -> None:
        condition = {
            "type": _MOVING,
            "status": status,
            "reason": "RoomHeld" if status == "True" else "NotMoved",
            "message": message,
            "lastTransitionTime": rfc3339(self._now()),
        }
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        async with self._slots:
            await self._client.patch(
                PODS,
                meta.name,
                patch,
                meta.namespace,
                kind=PatchKind.STRATEGIC,
                subresource="status",
            )
