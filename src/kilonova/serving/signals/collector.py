"""Collects the signals of all services: one task for each.

A service with requests is read every `scrape_interval`, one without five times less often, so that
services at rest cost almost nothing.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from kilonova.api.serving import STATS_PORT, InferenceService
from kilonova.kube import Key, Reflector
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.serving.caches import BY_SERVICE, list_service_keys
from kilonova.serving.providers import Listener
from kilonova.serving.resources import Pod
from kilonova.serving.settings import ServingSettings
from kilonova.serving.signals.http_reader import HttpReader
from kilonova.serving.signals.model import ServiceSignals
from kilonova.serving.signals.prometheus import PrometheusClient
from kilonova.serving.signals.queries import QUERY_INTERVAL_FACTOR, ServiceQueries
from kilonova.serving.signals.service_poll import ServicePoll

_log = get_logger(__name__)

_IDLE_FACTOR = 5
"""How many times less often a service without requests is read."""
_BUSY_FACTOR = 10
"""For so many intervals after its last request a service is read often."""
_MIN_SHARE = 0.25
"""The least part of an interval between two readings, however often pods change."""


@dataclass(frozen=True, slots=True)
class SignalCaches:
    """What the collector observes."""

    services: Reflector[InferenceService]
    pods: Reflector[Pod]


class SignalCollector:
    """A `SignalSource`, and the runnable that fills it."""

    def __init__(
        self,
        caches: SignalCaches,
        settings: ServingSettings,
        monotonic: Callable[[], float],
        stats_port: int = STATS_PORT,
    ) -> None:
        self.name = "signals of inference services"
        self._caches = caches
        self._settings = settings
        self._monotonic = monotonic
        self._stats_port = stats_port
        self._reader = HttpReader()
        self._prometheus = PrometheusClient()
        self._latest: dict[Key, ServiceSignals] = {}
        self._listeners: list[Listener] = []
        self._wake: dict[Key, asyncio.Event] = {}

    def latest(self, key: Key) -> ServiceSignals | None:
        """The latest figures of a service."""
        return self._latest.get(key)

    def add_listener(self, listener: Listener) -> None:
        """Call it whenever there are new figures."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Collect until cancelled."""
        services, pods = self._caches.services.store, self._caches.pods.store
        async with asyncio.TaskGroup() as group:

            def watch(key: Key) -> None:
                if key not in self._wake:
                    self._wake[key] = asyncio.Event()
                    group.create_task(self._watch(key))

            def on_service(old: InferenceService | None, new: InferenceService | None) -> None:
                if new is not None:
                    watch(services.key_of(new))
                elif old is not None:
                    self._wake_up(services.key_of(old))

            unsubscribe = [
                services.add_event_handler(on_service),
                pods.add_event_handler(self._on_pod),
            ]
            for key in list(services.keys()):
                watch(key)
            try:
                await asyncio.Event().wait()
            finally:
                for each in unsubscribe:
                    each()
                self._wake.clear()
                self._reader.close()
                await self._prometheus.close()

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        """A gateway or server that became ready, or vanished, is read, or left out, at once."""
        if (old is not None and old.is_ready) == (new is not None and new.is_ready):
            return
        changed = new or old
        assert changed is not None
        for key in list_service_keys(changed.metadata):
            self._wake_up(key)

    def _wake_up(self, key: Key) -> None:
        event = self._wake.get(key)
        if event is not None:
            event.set()

    async def _watch(self, key: Key) -> None:
        """Read one service until it is deleted."""
        settings, event = self._settings, self._wake[key]
        poll = ServicePoll(self._reader, self._stats_port)
        interval = settings.scrape_interval
        queries = ServiceQueries(
            self._prometheus, settings.prometheus_url, QUERY_INTERVAL_FACTOR * interval
        )
        try:
            while (service := self._caches.services.store.get(key)) is not None:
                event.clear()
                now = self._monotonic()
                queries.refresh(service.spec, now)
                pods = self._caches.pods.store.by_index(BY_SERVICE, key)
                signals = await poll.read(service.spec, pods, now)
                self._publish(key, queries.add_values(signals))
                await self._pause(event, now, poll.active_at)
            self._publish(key, None)
        finally:
            poll.close()
            queries.close()
            self._wake.pop(key, None)

    def _publish(self, key: Key, signals: ServiceSignals | None) -> None:
        before = self._latest.get(key)
        if signals is not None and signals.problems != (before.problems if before else ()):
            service = "/".join(key)
            if signals.problems:
                _log.warning("signals are incomplete", service=service, problems=signals.problems)
            else:
                _log.info("signals are complete again", service=service)
        if signals is None:
            self._latest.pop(key, None)
        else:
            self._latest[key] = signals
        for listener in self._listeners:
            listener(key)

    async def _pause(self, event: asyncio.Event, now: float, active_at: float | None) -> None:
        interval = self._settings.scrape_interval
        is_busy = active_at is not None and now - active_at < _BUSY_FACTOR * interval
        until = now + (interval if is_busy else _IDLE_FACTOR * interval)
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), max(0.0, until - self._monotonic()))
        await asyncio.sleep(max(0.0, now + _MIN_SHARE * interval - self._monotonic()))
