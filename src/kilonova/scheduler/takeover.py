"""What the scheduler before us wrote last, and our caches do not show yet.

A copy that waited has caches that may be a moment behind. Room that its predecessor gave away in
that moment is not to be given away again: bindings are read once more from the API itself.
"""

import asyncio
from collections.abc import Iterable
from itertools import count

from kilonova.kube import ApiStatusError, Backoff, Client, ConnectionFailed, NotFound
from kilonova.kube.logging import get_logger
from kilonova.scheduler.objects import PODS, Pod
from kilonova.scheduler.world import World

_log = get_logger(__name__)

_LOOKS = Backoff(0.1, 1.0)
_PAUSES = Backoff(0.5, 10.0)


async def catch_up(client: Client, world: World, serves: Iterable[str]) -> None:
    """Takes in all bindings of pods that are ours to place."""
    for failures in count(1):
        try:
            for name in sorted(serves):
                await _take_in_bindings(client, world, name)
            return
        except (ConnectionFailed, ApiStatusError) as error:
            _log.warning("bindings cannot be read, retrying", error=str(error))
        await asyncio.sleep(_PAUSES.delay(failures))


async def _take_in_bindings(client: Client, world: World, name: str) -> None:
    fields = f"spec.schedulerName={name},spec.nodeName!="
    listing = await client.list(PODS, fields=fields, on_undecodable=lambda _: None)
    for pod in listing.items:
        await _take_in(client, world, pod)


async def _take_in(client: Client, world: World, pod: Pod) -> None:
    for failures in count(1):
        if world.take_in(pod) or not await _is_there(client, pod):
            return
        await asyncio.sleep(_LOOKS.delay(failures))


async def _is_there(client: Client, pod: Pod) -> bool:
    try:
        found = await client.get(PODS, pod.metadata.name, pod.metadata.namespace)
    except NotFound:
        return False
    return found.metadata.uid == pod.metadata.uid
