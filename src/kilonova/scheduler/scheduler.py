"""All parts of a scheduler, to be run by a `kube.Manager`.

scheduler = build_scheduler(client, Settings())
manager.add(*scheduler.parts)
manager.add_leading(*scheduler.leading)
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry

from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue
from kilonova.api.scheduling import Reservation as ReservationObject
from kilonova.kube import UNMEASURED, Client, Instruments, Part, Reflector
from kilonova.kube.events import Recorder, random_id
from kilonova.kube.metrics import Metrics
from kilonova.scheduler.allocations import Allocations
from kilonova.scheduler.announcing import Announcements
from kilonova.scheduler.avoidance import Avoidance
from kilonova.scheduler.binding import Binder
from kilonova.scheduler.budgets import BUDGETS, Budget, Budgets
from kilonova.scheduler.carrying import Carrier
from kilonova.scheduler.containment import ErrorReporter
from kilonova.scheduler.core.fit import LearntFit
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.plan import Placement, Planner, Refusal, Reservation
from kilonova.scheduler.core.scores import Scoring, default_scoring
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.deviceobjects import (
    CLAIMS,
    CLASSES,
    SLICES,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
)
from kilonova.scheduler.devices import Devices
from kilonova.scheduler.evictions import Evictions
from kilonova.scheduler.foreigngroups import ForeignGroups
from kilonova.scheduler.groupobjects import COSCHEDULED, NATIVE, CoscheduledGroup, NativeGroup
from kilonova.scheduler.groupstatus import GroupStatuses
from kilonova.scheduler.halves import Halves
from kilonova.scheduler.metrics import SchedulerMetrics
from kilonova.scheduler.movelimits import MoveLimits
from kilonova.scheduler.moves import Aside, Moves
from kilonova.scheduler.namespaces import NAMESPACES, Namespace, NamespaceLabels
from kilonova.scheduler.nominations import Nominations
from kilonova.scheduler.objects import GANGS, NODES, PODS, QUEUES, RESERVATIONS, Node, Pod
from kilonova.scheduler.plugins import plugged_in
from kilonova.scheduler.queuestatus import QueueStatuses
from kilonova.scheduler.reading.gangs import NotYet
from kilonova.scheduler.reading.reservations import is_reservation
from kilonova.scheduler.reasons import Reasons
from kilonova.scheduler.rejections import Rejection
from kilonova.scheduler.releases import Releases
from kilonova.scheduler.reservations import Reservations
from kilonova.scheduler.reservations import catch_up as catch_up_reservations
from kilonova.scheduler.resting import Rests
from kilonova.scheduler.rounds import Rounds
from kilonova.scheduler.settings import Settings
from kilonova.scheduler.storagecaches import Storage
from kilonova.scheduler.takeover import catch_up
from kilonova.scheduler.telling import Teller
from kilonova.scheduler.verdicts import internal_error
from kilonova.scheduler.volumepromises import VolumePromises
from kilonova.scheduler.volumes import Volumes
from kilonova.scheduler.world import World

COMPONENT = "kilonova-scheduler"
"""Who reports events."""
_MOST_EVENTS = 10_000
"""They wait while gangs are being bound."""


@dataclass(frozen=True, slots=True)
class Caches:
    """What a scheduler knows."""

    nodes: Reflector[Node]
    pods: Reflector[Pod]
    gangs: Reflector[PodGang]
    queues: Reflector[Queue]
    slices: Reflector[ResourceSlice]
    classes: Reflector[DeviceClass]
    claims: Reflector[ResourceClaim]
    budgets: Reflector[Budget]
    storage: Storage
    namespaces: Reflector[Namespace]
    coscheduled: Reflector[CoscheduledGroup]
    podgroups: Reflector[NativeGroup]
    reservations: Reflector[ReservationObject]

    @property
    def all(self) -> "list[Reflector[Any]]":
        """All of them; who refers to others comes after them."""
        devices = [self.slices, self.classes, self.claims]
        before_pods = [*self.groups, *devices, *self.storage.all, self.namespaces]
        after_pods = [self.budgets, self.reservations]
        return [self.nodes, self.queues, self.gangs, *before_pods, self.pods, *after_pods]

    @property
    def groups(self) -> "list[Reflector[Any]]":
        """Those of groups that other people's workloads have."""
        return [self.coscheduled, self.podgroups]

    async def wait_synced(self) -> None:
        """Waits until all are filled."""
        for each in self.all:
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
        return [*self.caches.all, self.recorder]


def build_scheduler(
    client: Client,
    settings: Settings,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    monotonic: Callable[[], float] = time.monotonic,
    instruments: Instruments = UNMEASURED,
    registry: CollectorRegistry | None = None,
    new_id: Callable[[], str] = random_id,
    aside: Aside = asyncio.to_thread,
) -> Scheduler:
    """A scheduler over a client; `now` is the time of day, `monotonic` only goes forward.

    What it measures is in `registry`; without one, beside what `instruments` measure. Events are
    named with new ids. `aside` runs what takes long beside the loop.
    """
    caches = Caches(
        Reflector(client, NODES, instruments=instruments),
        Reflector(client, PODS, instruments=instruments),
        Reflector(client, GANGS, instruments=instruments),
        Reflector(client, QUEUES, instruments=instruments),
        Reflector(client, SLICES, instruments=instruments, optional=True),
        Reflector(client, CLASSES, instruments=instruments, optional=True),
        Reflector(client, CLAIMS, instruments=instruments, optional=True),
        Reflector(client, BUDGETS, instruments=instruments),
        Storage.over(client, instruments),
        Reflector(client, NAMESPACES, instruments=instruments),
        Reflector(client, COSCHEDULED, instruments=instruments, optional=True),
        Reflector(client, NATIVE, instruments=instruments, optional=True),
        Reflector(client, RESERVATIONS, instruments=instruments, optional=True),
    )
    devices = Devices(
        caches.slices.store,
        caches.classes.store,
        caches.claims.store,
        caches.pods.store,
        caches.nodes.store,
    )
    shelves = caches.storage.shelves(caches.pods.store)
    kube = instruments if isinstance(instruments, Metrics) else None
    if registry is None:
        registry = CollectorRegistry() if kube is None else kube.registry
    metrics = SchedulerMetrics(registry)
    recorder = Recorder(
        client,
        COMPONENT,
        metrics=kube,
        clock=monotonic,
        wall=now,
        new_id=new_id,
        capacity=_MOST_EVENTS,
        busy=lambda: binder.under_way > 0,
    )
    woken, fit = asyncio.Event(), LearntFit()
    groups = ForeignGroups(
        caches.gangs.store,
        caches.coscheduled.store,
        caches.podgroups.store,
        caches.pods.store,
        settings.serves,
        woken.set,
    )
    errors = ErrorReporter(metrics)

    def read_failed(name: str, error: Exception) -> NotYet:
        return NotYet("SchedulerError", internal_error(errors.report("gang", name, error)))

    avoidance = Avoidance(caches.pods.store, now, lasting=settings.avoid_for)

    def mindful(gang: Gang) -> Gang:
        return releases.patient(avoidance.mindful(gang))

    world = World(
        caches.nodes.store,
        caches.pods.store,
        groups.gangs,
        caches.queues.store,
        now,
        wake=woken.set,
        serves=settings.serves,
        others_gangs=False,
        devices=devices,
        volumes=Volumes(shelves),
        namespaces=NamespaceLabels(caches.namespaces.store, caches.pods.store),
        groups=groups,
        reservations=caches.reservations.store,
        arrived=fit.note,
        mindful=mindful,
        failed=read_failed,
    )

    def handler_failed(old: object, new: object, error: Exception) -> None:
        subject, pod = new or old, None
        match subject:
            case Pod():
                name, node = subject.key, subject.spec.node_name
                pod = name
            case Node():
                name = node = subject.metadata.name
            case _:
                name, node = type(subject).__name__, ""
        errors.report("cache", name, error)
        try:
            world.exclude_node(node, pod)
        except Exception as also:
            errors.report("cache", node, also)

    for cache in caches.all:
        cache.store.contain(handler_failed)
    avoidance.attach(world.cluster.snapshot, world.touch)
    Budgets(world.cluster, caches.budgets.store, caches.pods.store)
    scoring = scoring_of(settings.weights, fit)
    planner = Planner(world.cluster, scoring, settings.policy)
    reasons = Reasons(world, scoring, settings.policy, lambda: now().timestamp())
    teller = Teller(
        client,
        world,
        groups.gangs,
        recorder,
        reasons,
        now,
        pace=settings.pace,
        levels=settings.policy.levels,
        instruments=instruments,
        monotonic=monotonic,
    )
    slots = asyncio.Semaphore(settings.concurrency)
    nominations = Nominations(client, world, slots)
    evictions = Evictions(client, world, nominations, recorder, metrics, patience=settings.patience)
    rests = Rests(woken.set)

    def done(placement: Placement, failed: list[Booking], rejected: Sequence[Rejection]) -> None:
        avoidance.rejected(placement.gang.name, rejected)
        if failed:
            rests.failed(placement.gang.name)
        else:
            rests.forget(placement.gang.name)
            if not any(group.placed for group in placement.gang.groups):
                metrics.gang_placed(now().timestamp() - placement.gang.created)
        teller.placed(placement, failed)
        teller.rejected(placement.gang, rejected)

    async def begin() -> None:
        await caches.wait_synced()
        await catch_up(client, world, settings.serves)
        await catch_up_reservations(client, caches.reservations.store)
        world.reservations.recall()
        moves.recall(list(caches.pods.store.objects()), groups.gangs.objects())

    allocations = Allocations(
        client,
        devices,
        world.cluster.snapshot.claims,
        world.find,
        slots,
        errors,
        patience=settings.patience,
    )
    volumes = VolumePromises(
        client,
        shelves,
        world.cluster.snapshot,
        world.unbound,
        recorder,
        slots,
        patience=settings.patience,
    )
    releases = Releases(
        world,
        evictions,
        nominations,
        planner.place,
        teller.waits,
        now,
        patience=settings.patience,
    )
    releases.attach(caches.pods.store, caches.nodes.store, groups.gangs)
    world.reservations.patient = releases.patient
    binder = Binder(
        client, world, releases.make_way, done, slots, metrics, allocations, volumes, errors
    )
    announcements = Announcements(client, world, slots, now)
    carrier = Carrier(
        world,
        binder.bind,
        evictions,
        nominations,
        announcements,
        metrics,
        now,
        patience=settings.patience,
        return_within=(settings.moves or MoveLimits()).return_within,
    )
    moves = Moves(
        world,
        carrier,
        announcements,
        settings.moves,
        settings.policy,
        settings.weights,
        fit,
        now,
        errors,
        aside,
    )
    reservations = Reservations(
        client,
        world.reservations,
        caches.reservations,
        evictions,
        releases,
        rests,
        recorder,
        reasons,
        now,
        pace=settings.pace,
        instruments=instruments,
        monotonic=monotonic,
    )

    def carry_out(placement: Placement) -> None:
        if is_reservation(placement.gang.name):
            reservations.placed(placement)
        else:
            binder.bind(placement)

    rounds = Rounds(
        world,
        planner,
        carry_out,
        _Refused(teller, allocations, moves, reservations, avoidance),
        now,
        woken,
        rests=rests,
        metrics=metrics,
        retry=settings.retry,
        node_batch=settings.node_batch,
        learn=lambda: fit.learn(world.cluster.snapshot),
        begin=begin,
        errors=errors,
        returned=carrier.returned,
    )
    metrics.show_pending(rounds.reasons)
    halves = Halves(world, groups.gangs, evictions, now, errors, after=settings.half_after)
    queues = QueueStatuses(
        client, world, caches.queues, caches.all, now, errors, pace=settings.pace
    )
    statuses = GroupStatuses(client, caches.podgroups, caches.pods, groups, now)
    told = (teller.controller, queues, statuses.controller, reservations.controller)
    leading = (binder, rounds, halves, allocations, moves, *told)
    return Scheduler(caches, world, planner, recorder, leading)


@dataclass(frozen=True, slots=True)
class _Refused:
    """All who hear of gangs that got no place."""

    teller: Teller
    allocations: Allocations
    moves: Moves
    reservations: Reservations
    avoidance: Avoidance

    def refused(self, refusals: Sequence[Refusal], reservation: Reservation | None) -> None:
        kept = [each for each in refusals if is_reservation(each.gang.name)]
        self.reservations.refused(kept, reservation)
        refusals = [each for each in refusals if not is_reservation(each.gang.name)]
        self.moves.refused(refusals)
        again = self.avoidance.refused(refusals)
        self.allocations.refused(refusals)
        told = [each for each in refusals if each.gang.name not in again]
        self.teller.refused(told, reservation)

    def unreadable(self, misread: Mapping[str, NotYet]) -> None:
        self.teller.unreadable(misread)


def scoring_of(weights: Mapping[str, float], fit: LearntFit | None = None) -> Scoring:
    """The parts of a node's score, usual and plugged in, some with another weight than theirs."""
    return default_scoring(fit, plugged_in(weights)).weighed(weights)
