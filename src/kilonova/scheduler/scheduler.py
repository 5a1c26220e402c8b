"""All parts of a scheduler, to be run by a `kube.Manager`.

scheduler = build_scheduler(client, Settings())
manager.add(*scheduler.parts)
manager.add_leading(*scheduler.leading)
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue
from kilonova.kube import UNMEASURED, Client, Instruments, Part, Reflector
from kilonova.kube.events import Recorder
from kilonova.kube.metrics import Metrics
from kilonova.scheduler.binding import Binder
from kilonova.scheduler.core.plan import Planner
from kilonova.scheduler.core.scores import default_scoring
from kilonova.scheduler.evictions import Evictions
from kilonova.scheduler.objects import GANGS, NODES, PODS, QUEUES, Node, Pod
from kilonova.scheduler.rounds import Rounds
from kilonova.scheduler.settings import Settings
from kilonova.scheduler.telling import Teller
from kilonova.scheduler.world import World

COMPONENT = "kilonova-scheduler"
"""Who reports events."""


@dataclass(frozen=True, slots=True)
class Caches:
    """What a scheduler knows."""

    nodes: Reflector[Node]
    pods: Reflector[Pod]
    gangs: Reflector[PodGang]
    queues: Reflector[Queue]

    @property
    def synced(self) -> bool:
        return all(each.synced for each in (self.nodes, self.pods, self.gangs, self.queues))


@dataclass(frozen=True, slots=True)
class Scheduler:
    """What a scheduler consists of."""

    caches: Caches
    world: World
    planner: Planner
    recorder: Recorder
    leading: tuple[Part, ...]
    """What writes: of several copies only one may run it."""

    @property
    def parts(self) -> list[Part]:
        """What runs in every copy: caches, so that another can take over at once, and events."""
        caches = self.caches
        return [caches.nodes, caches.queues, caches.gangs, caches.pods, self.recorder]


def build_scheduler(
    client: Client,
    settings: Settings,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    monotonic: Callable[[], float] = time.monotonic,
    instruments: Instruments = UNMEASURED,
) -> Scheduler:
    """A scheduler over a client; `now` is the time of day, `monotonic` only goes forward."""
    caches = Caches(
        Reflector(client, NODES, instruments=instruments),
        Reflector(client, PODS, instruments=instruments),
        Reflector(client, GANGS, instruments=instruments),
        Reflector(client, QUEUES, instruments=instruments),
    )
    recorder = Recorder(
        client,
        COMPONENT,
        metrics=instruments if isinstance(instruments, Metrics) else None,
        clock=monotonic,
        wall=now,
    )
    woken = asyncio.Event()
    world = World(
        caches.nodes.store,
        caches.pods.store,
        caches.gangs.store,
        caches.queues.store,
        now,
        wake=woken.set,
    )
    planner = Planner(world.cluster, default_scoring(), settings.policy)
    teller = Teller(
        client,
        world,
        caches.gangs.store,
        recorder,
        lambda _: "no room",
        now,
        pace=settings.pace,
        instruments=instruments,
        monotonic=monotonic,
    )
    evictions = Evictions(client, world, recorder, patience=settings.patience)
    binder = Binder(client, world, evictions.clear, teller.placed, concurrency=settings.concurrency)
    rounds = Rounds(
        world,
        planner,
        binder.bind,
        teller,
        now,
        woken,
        retry=settings.retry,
        synced=lambda: caches.synced,
    )
    return Scheduler(caches, world, planner, recorder, (binder, rounds, teller.controller))
