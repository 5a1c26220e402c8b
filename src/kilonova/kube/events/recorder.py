"""Writes events asynchronously.

`event` only counts and marks a series as due: it never waits and never fails. One task writes the
due series, the latest state of each once, so that a burst of equal occurrences costs one request.
The number of due series is bounded; events beyond it are dropped and counted in the metrics, as are
events that the server rejects. During an outage, events wait within that bound.
"""

import asyncio
import secrets
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache

from kilonova.kube.client.client import Client
from kilonova.kube.client.errors import AlreadyExists, ApiStatusError, ConnectionFailed, NotFound
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.events.correlator import (
    CorrelatorOptions,
    EventCorrelator,
    EventOccurrence,
    EventSeries,
    ObjectReference,
)
from kilonova.kube.observability.metrics import Metrics
from kilonova.kube.observability.structured_logging import get_logger

EVENTS = unstructured_resource("", "v1", "events", "Event", True)

_RETRY_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0)
_WRITE_TIMEOUT_SECONDS = 30.0
_MAX_BUSY_WAIT_SECONDS = 5.0
_BUSY_POLL_SECONDS = 0.1

log = get_logger(__name__)


def random_id() -> str:
    """Makes the names of events about one object unique."""
    return secrets.token_hex(8)


@cache
def _unpublished_metrics() -> Metrics:
    """Of all recorders whose metrics nothing reads: a `Metrics` has all metrics of a process."""
    return Metrics()


class EventRecorder:
    """Records events about objects. A `GracefulRunnable`: `stop` flushes.

    `component` is the controller in the FROM column of `kubectl describe`. While `is_busy` reports
    more important writes, events wait, for some seconds at most.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        instance: str = "",
        metrics: Metrics | None = None,
        options: CorrelatorOptions | None = None,
        max_pending: int = 1000,
        flush_seconds: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_id: Callable[[], str] = random_id,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = f"events of {component}"
        self._client = client
        self._component = component
        self._instance = instance or socket.gethostname()
        self._metrics = metrics or _unpublished_metrics()
        self._max_pending = max_pending
        self._flush_seconds = flush_seconds
        self._clock = clock
        self._wall = wall
        self._is_busy = is_busy
        self._correlator = EventCorrelator(options or CorrelatorOptions(), new_id)
        # By identity: a series is due once, however often it changes before it is written.
        self._pending: dict[int, EventSeries] = {}
        self._writing: EventSeries | None = None
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()

    def event(
        self,
        regarding: ObjectReference,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        action: str = "",
    ) -> None:
        """Record an occurrence. `reason` is one CamelCase word, `message` a sentence."""
        kind = "Warning" if warning else "Normal"
        occurrence = EventOccurrence(regarding, kind, reason, message, action)
        now = self._clock()
        series = self._correlator.record(occurrence, now, self._wall())
        if id(series) in self._pending:
            return
        if len(self._pending) >= self._max_pending:
            self._metrics.count_events_dropped("buffer_full")
        elif not self._correlator.can_write(series, now):
            self._metrics.count_events_dropped("rate_limited")
        else:
            self._pending[id(series)] = series
            self._wake.set()

    async def run(self) -> None:
        """Write until `stop`, then flush what is due, for a few seconds at most."""
        writing = asyncio.create_task(self._write_loop())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({writing, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not writing.done():
                await asyncio.wait({writing}, timeout=self._flush_seconds)
        finally:
            writing.cancel()
            stopping.cancel()
            await asyncio.wait({writing, stopping})
        if not writing.cancelled():
            writing.result()
        remaining = len(self._pending) + (self._writing is not None)
        if remaining:
            self._metrics.count_events_dropped("stopped", remaining)
            log.warning("events dropped at stop", count=remaining)

    def stop(self) -> None:
        """Let `run` flush what is due and return."""
        self._stopping.set()
        self._wake.set()

    async def _write_loop(self) -> None:
        while True:
            await self._wait_while_busy()
            while self._pending:
                await self._write_next()
            if self._stopping.is_set():
                return
            await self._wake.wait()
            self._wake.clear()

    async def _wait_while_busy(self) -> None:
        since = self._clock()
        while self._pending and self._is_busy() and not self._stopping.is_set():
            if self._clock() - since >= _MAX_BUSY_WAIT_SECONDS:
                return
            await asyncio.sleep(_BUSY_POLL_SECONDS)

    async def _write_next(self) -> None:
        series = self._writing = self._pending.pop(next(iter(self._pending)))
        failures = 0
        while problem := await self._try_write(series):
            if failures == 0:
                log.warning("event not written, retrying", error=problem)
            delay = _RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)]
            failures += 1
            await asyncio.sleep(delay)
        self._writing = None

    async def _try_write(self, series: EventSeries) -> str:
        """Write, or drop for good; returns the problem if a retry may succeed."""
        try:
            async with asyncio.timeout(_WRITE_TIMEOUT_SECONDS):
                await self._write(series)
        except (ConnectionFailed, TimeoutError) as error:
            return str(error) or "no response"
        except ApiStatusError as error:
            if error.code >= 500 or error.code == 429:
                return str(error)
            self._metrics.count_events_dropped("rejected")
            object_name = f"{series.namespace}/{series.latest.regarding.name}"
            log.warning("event rejected by the API server", object=object_name, error=str(error))
        return ""

    async def _write(self, series: EventSeries) -> None:
        if not series.exists:
            try:
                body = series.as_object(self._component, self._instance)
                await self._client.create(EVENTS, body, series.namespace)
                series.exists = True
                self._metrics.count_event_written("create")
                return
            except AlreadyExists:
                # An earlier attempt did arrive; only its response was lost.
                series.exists = True
        try:
            await self._client.patch(EVENTS, series.name, series.as_patch(), series.namespace)
            self._metrics.count_event_written("patch")
        except NotFound:
            # The server deletes events after an hour: create it again under the same name.
            series.exists = False
            await self._write(series)
