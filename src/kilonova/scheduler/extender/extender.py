"""All parts of an extender, to be run by a `kube.Manager`.

extender = await build_extender(client)
manager.add(*extender.caches)
manager.add(WebServer("extender", extender.verbs.endpoints(), port=8888))
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from kilonova.api.podgang import PodGang
from kilonova.kube import UNMEASURED, Client, Instruments, NotFound, Part, Reflector, Request, Store
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.scores import WISHES, default_scoring
from kilonova.scheduler.extender.binding import Binding
from kilonova.scheduler.extender.server import Verbs
from kilonova.scheduler.objects import GANGS, NODES, PODS, QUEUES
from kilonova.scheduler.world import World


@dataclass(frozen=True, slots=True)
class Extender:
    """What an extender consists of."""

    world: World
    verbs: Verbs
    caches: tuple[Part, ...]


async def build_extender(
    client: Client,
    *,
    leading: Client | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    instruments: Instruments = UNMEASURED,
    registry: CollectorRegistry | None = None,
) -> Extender:
    """An extender over a client; bindings are written with `leading`.

    Gangs are heeded where the cluster has their kind when this is called. Queues are not:
    whether a pod may run is kube-scheduler's to say.
    """
    nodes = Reflector(client, NODES, instruments=instruments)
    pods = Reflector(client, PODS, instruments=instruments)
    gangs = await _gangs(client, instruments)
    synced = [cache for cache in (nodes, pods, gangs) if cache is not None]
    refreshing = _Refreshing()
    world = refreshing.world = World(
        nodes.store,
        pods.store,
        Store(PodGang) if gangs is None else gangs.store,
        Store(QUEUES.type),
        now,
        refreshing.wake,
    )
    scoring = default_scoring().weighed({WISHES: 0})  # kube-scheduler looks after them
    rooms = Rooms(world.cluster.snapshot, scoring)
    verbs = Verbs(
        world,
        rooms,
        scoring,
        Binding(leading or client, world, rooms, pods.store),
        lambda: all(cache.synced for cache in synced),
        registry,
    )
    return Extender(world, verbs, tuple(synced))


async def _gangs(client: Client, instruments: Instruments) -> Reflector[PodGang] | None:
    """The cache of gangs; None where there is no such kind."""
    try:
        await client.send(Request("GET", f"/apis/{GANGS.group}/{GANGS.version}"))
    except NotFound:
        return None
    return Reflector(client, GANGS, instruments=instruments)


class _Refreshing:
    """Reads gangs that something happened to soon, and many at once: it is nobody's turn here."""

    world: World | None = None
    _due = False

    def wake(self) -> None:
        if not self._due:
            self._due = True
            asyncio.get_running_loop().call_soon(self._refresh)

    def _refresh(self) -> None:
        self._due = False
        if self.world is not None:
            self.world.refresh()
