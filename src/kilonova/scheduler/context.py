"""What the components of a scheduler share: client, settings, clocks, and where they report."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import CollectorRegistry

from kilonova.kube import Client, RuntimeMetrics
from kilonova.kube.events import EventRecorder
from kilonova.kube.observability.metrics import Metrics
from kilonova.scheduler.error_reporter import ErrorReporter
from kilonova.scheduler.metrics import SchedulerMetrics
from kilonova.scheduler.settings import SchedulerSettings

COMPONENT = "kilonova-scheduler"
"""The reporting component of events."""
_EVENT_CAPACITY = 10_000
"""Events are queued while bindings are in flight."""


@dataclass(slots=True)
class BindingsInFlight:
    """The number of gangs being bound: events wait for them."""

    count: int = 0

    def is_busy(self) -> bool:
        return self.count > 0


@dataclass(frozen=True, slots=True)
class SchedulerContext:
    """Shared by all components of one scheduler; a component keeps what it uses often."""

    client: Client
    settings: SchedulerSettings
    now: Callable[[], datetime]
    """The wall clock."""
    monotonic: Callable[[], float]
    """A clock that never goes back."""
    recorder: EventRecorder
    metrics: SchedulerMetrics
    runtime_metrics: RuntimeMetrics
    errors: ErrorReporter
    wakeup: asyncio.Event
    """Set to have a scheduling cycle run."""
    write_slots: asyncio.Semaphore
    """Limits concurrent writes of bindings and what precedes them."""
    bindings_in_flight: BindingsInFlight

    @staticmethod
    def create(
        client: Client,
        settings: SchedulerSettings,
        *,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        runtime_metrics: RuntimeMetrics,
        registry: CollectorRegistry | None,
        new_id: Callable[[], str],
    ) -> "SchedulerContext":
        """The context of a new scheduler; the parameters are those of `build_scheduler`."""
        kube_metrics = runtime_metrics if isinstance(runtime_metrics, Metrics) else None
        if registry is None:
            registry = CollectorRegistry() if kube_metrics is None else kube_metrics.registry
        metrics = SchedulerMetrics(registry)
        bindings_in_flight = BindingsInFlight()
        recorder = EventRecorder(
            client,
            COMPONENT,
            metrics=kube_metrics,
            clock=monotonic,
            wall=now,
            new_id=new_id,
            max_pending=_EVENT_CAPACITY,
            is_busy=bindings_in_flight.is_busy,
        )
        return SchedulerContext(
            client,
            settings,
            now,
            monotonic,
            recorder,
            metrics,
            runtime_metrics,
            ErrorReporter(metrics),
            asyncio.Event(),
            asyncio.Semaphore(settings.concurrent_bindings),
            bindings_in_flight,
        )
