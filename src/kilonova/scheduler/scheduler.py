"""All parts of a scheduler, to be run by a `kube.Manager`.

scheduler = build_scheduler(client, Settings())
manager.add(*scheduler.parts)
manager.add_leading(*scheduler.leading)
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue
from kilonova.kube import UNMEASURED, Client, Instruments, Part, Reflector
from kilonova.kube.events import Recorder
from kilonova.kube.metrics import Metrics
from kilonova.scheduler.binding import Binder
from kilonova.scheduler.core.plan import Placement, Planner
from kilonova.scheduler.core.scores import Scoring, default_scoring
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.evictions import Evictions
from kilonova.scheduler.halves import Halves
from kilonova.scheduler.nominations import Nominations
from kilonova.scheduler.objects import GANGS, NODES, PODS, QUEUES, Node, Pod
from kilonova.scheduler.reasons import Reasons
from kilonova.scheduler.resting import Rests
from kilonova.scheduler.rounds import Rounds
from kilonova.scheduler.settings import Settings
from kilonova.scheduler.takeover import catch_up
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

    async def wait_synced(self) -> None:
        """Waits until all are filled."""
        for each in (self.nodes, self.pods, self.gangs, self.queues):
            await each.wait_synced()


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
        serves=settings.serves,
        others_gangs=False,
    )
    scoring = scoring_of(settings.weights)
    planner = Planner(world.cluster, scoring, settings.policy)
    teller = Teller(
        client,
        world,
        caches.gangs.store,
        recorder,
        Reasons(world, scoring, settings.policy, lambda: now().timestamp()),
        now,
        pace=settings.pace,
        instruments=instruments,
        monotonic=monotonic,
    )
    slots = asyncio.Semaphore(settings.concurrency)
    nominations = Nominations(client, world, slots)
    evictions = Evictions(client, world, nominations, recorder, patience=settings.patience)
    rests = Rests(woken.set)

    def done(placement: Placement, failed: list[Booking]) -> None:
        if failed:
            rests.failed(placement.gang.name)
        else:
            rests.forget(placement.gang.name)
        teller.placed(placement, failed)

    async def begin() -> None:
        await caches.wait_synced()
        await catch_up(client, world, settings.serves)

    binder = Binder(client, world, evictions.clear, done, slots)
    rounds = Rounds(
        world,
        planner,
        binder.bind,
        teller,
        now,
        woken,
        rests=rests,
        retry=settings.retry,
        begin=begin,
    )
    halves = Halves(world, caches.gangs.store, evictions, now, after=settings.half_after)
    return Scheduler(caches, world, planner, recorder, (binder, rounds, halves, teller.controller))


def scoring_of(weights: Mapping[str, float]) -> Scoring:
    """The usual parts of a node's score, some with another weight."""
    usual = default_scoring().parts
    return Scoring([replace(part, weight=weights.get(part.name, part.weight)) for part in usual])
