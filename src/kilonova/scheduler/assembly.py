"""Builds a scheduler, whose runnables a `kube.Manager` runs.

scheduler = build_scheduler(client, SchedulerSettings())
manager.add(*scheduler.runnables)
manager.add_leader_runnables(*scheduler.leader_runnables)
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from prometheus_client import CollectorRegistry

from kilonova.kube import NO_RUNTIME_METRICS, Client, Runnable, RuntimeMetrics
from kilonova.kube.events import EventRecorder, random_id
from kilonova.scheduler.binding.assembly import BindingSubsystem
from kilonova.scheduler.cache.assembly import CacheSubsystem
from kilonova.scheduler.cache.informers import Informers
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.consolidation.assembly import ConsolidationSubsystem
from kilonova.scheduler.consolidation.consolidator import SearchRunner
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.cycle.assembly import build_scheduling_loop
from kilonova.scheduler.eviction.assembly import EvictionSubsystem
from kilonova.scheduler.reservations.controller import ReservationController
from kilonova.scheduler.score_plugins import build_scoring
from kilonova.scheduler.settings import SchedulerSettings
from kilonova.scheduler.status.assembly import StatusSubsystem


@dataclass(frozen=True, slots=True)
class Scheduler:
    """The parts of a scheduler."""

    informers: Informers
    cache: SchedulerCache
    planner: Planner
    recorder: EventRecorder
    leader_runnables: tuple[Runnable, ...]
    """Runnables that write: only the leader runs them."""

    @property
    def runnables(self) -> list[Runnable]:
        """Runnables of every replica: informers, so that a new leader starts with full caches, and
        the event recorder."""
        return [*self.informers.all, self.recorder]


def build_scheduler(
    client: Client,
    settings: SchedulerSettings,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    monotonic: Callable[[], float] = time.monotonic,
    runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
    registry: CollectorRegistry | None = None,
    new_id: Callable[[], str] = random_id,
    run_search: SearchRunner = asyncio.to_thread,
) -> Scheduler:
    """Build a scheduler over a client; `now` is the wall clock, `monotonic` never goes back.

    Metrics are registered in `registry`; without one, in the registry of `runtime_metrics`.
    `new_id` names events. `run_search` runs a long computation outside the event loop.
    """
    context = SchedulerContext.create(
        client,
        settings,
        now=now,
        monotonic=monotonic,
        runtime_metrics=runtime_metrics,
        registry=registry,
        new_id=new_id,
    )
    informers = Informers.from_client(client, runtime_metrics)
    caches = CacheSubsystem.build(context, informers)
    scoring = build_scoring(settings.weights, caches.fit)
    planner = Planner(caches.scheduler_cache.cluster, scoring, settings.policy)
    status = StatusSubsystem.build(context, informers, caches, scoring)
    eviction = EvictionSubsystem.build(context, informers, caches, status, planner)
    binding = BindingSubsystem.build(context, caches, status, eviction)
    consolidation = ConsolidationSubsystem.build(
        context, informers, caches, eviction, binding, run_search
    )
    reservations = ReservationController(
        context, informers.reservations, caches, eviction, status.explanations
    )
    scheduling_loop = build_scheduling_loop(
        context, informers, caches, planner, status, binding, consolidation, reservations
    )
    leader_runnables = (
        binding.binder,
        scheduling_loop,
        eviction.partial_gangs,
        binding.allocations,
        consolidation.consolidator,
        *status.runnables,
        reservations.controller,
    )
    return Scheduler(informers, caches.scheduler_cache, planner, context.recorder, leader_runnables)
