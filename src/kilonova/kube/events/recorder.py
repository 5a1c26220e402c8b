"""Writes events behind the backs of those who report them.

`event` only counts and marks a series as due: it never waits and never fails. One task writes
what is due, the latest state of each series once, so that a burst of equal occurrences costs
one request. The number of due series is bounded; what does not fit is dropped and counted in
the metrics, as is what the server refuses. An outage is waited out, within that bound.
"""

import asyncio
import secrets
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime

from kilonova.kube.client import Client
from kilonova.kube.errors import AlreadyExists, ApiStatusError, ConnectionFailed, NotFound
from kilonova.kube.events.series import Correlator, Limits, Occurrence, Reference, Series
from kilonova.kube.logging import get_logger
from kilonova.kube.metrics import Metrics
from kilonova.kube.resource import plain

EVENTS = plain("", "v1", "events", "Event", True)

_RETRY_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0)
_WRITE_SECONDS = 30.0
_COURTESY_SECONDS = 5.0
_LOOK_SECONDS = 0.1

log = get_logger(__name__)


def random_id() -> str:
    """What tells the names of events about one object apart."""
    return secrets.token_hex(8)


class Recorder:
    """Reports what happens to objects. A part of the process: `run` it, `stop` flushes.

    `component` names the controller in the column FROM of `kubectl describe`. While its process is
    `busy` with writes that matter more, events wait, for some seconds at most.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        instance: str = "",
        metrics: Metrics | None = None,
        limits: Limits | None = None,
        capacity: int = 1000,
        flush_seconds: float = 5.0,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_id: Callable[[], str] = random_id,
        busy: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name = f"events of {component}"
        self._client = client
        self._component = component
        self._instance = instance or socket.gethostname()
        self._metrics = metrics or Metrics()
        self._capacity = capacity
        self._flush_seconds = flush_seconds
        self._clock = clock
        self._wall = wall
        self._busy = busy
        self._correlator = Correlator(limits or Limits(), new_id)
        # By identity: a series is due once, whatever happens to it before it is written.
        self._due: dict[int, Series] = {}
        self._writing: Series | None = None
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()

    def event(
        self,
        about: Reference,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        action: str = "",
    ) -> None:
        """Report an occurrence. `reason` is one CamelCase word, `message` a sentence."""
        kind = "Warning" if warning else "Normal"
        occurrence = Occurrence(about, kind, reason, message, action)
        now = self._clock()
        series = self._correlator.count(occurrence, now, self._wall())
        if id(series) in self._due:
            return
        if len(self._due) >= self._capacity:
            self._metrics.events_dropped("full")
        elif not self._correlator.may_write(series, now):
            self._metrics.events_dropped("rate")
        else:
            self._due[id(series)] = series
            self._wake.set()

    async def run(self) -> None:
        """Write until `stop`, then what is still due, for a few seconds at most."""
        writing = asyncio.create_task(self._write_for_ever())
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
        left = len(self._due) + (self._writing is not None)
        if left:
            self._metrics.events_dropped("stopped", left)
            log.warning("events were not written before the stop", count=left)

    def stop(self) -> None:
        """Let `run` write what is due and return."""
        self._stopping.set()
        self._wake.set()

    async def _write_for_ever(self) -> None:
        while True:
            await self._let_others_go_first()
            while self._due:
                await self._write_next()
            if self._stopping.is_set():
                return
            await self._wake.wait()
            self._wake.clear()

    async def _let_others_go_first(self) -> None:
        since = self._clock()
        while self._due and self._busy() and not self._stopping.is_set():
            if self._clock() - since >= _COURTESY_SECONDS:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _write_next(self) -> None:
        series = self._writing = self._due.pop(next(iter(self._due)))
        failures = 0
        while problem := await self._try(series):
            if failures == 0:
                log.warning("events cannot be written, retrying", error=problem)
            delay = _RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)]
            failures += 1
            await asyncio.sleep(delay)
        self._writing = None

    async def _try(self, series: Series) -> str:
        """Write, or give up for good; what is wrong, if it may be better later."""
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._write(series)
        except (ConnectionFailed, TimeoutError) as error:
            return str(error) or "no answer"
        except ApiStatusError as error:
            if error.code >= 500 or error.code == 429:
                return str(error)
            self._metrics.events_dropped("refused")
            about = f"{series.namespace}/{series.latest.about.name}"
            log.warning("event refused", about=about, error=str(error))
        return ""

    async def _write(self, series: Series) -> None:
        if not series.exists:
            try:
                body = series.as_object(self._component, self._instance)
                await self._client.create(EVENTS, body, series.namespace)
                series.exists = True
                self._metrics.event_written("create")
                return
            except AlreadyExists:
                # An earlier try did arrive; only its answer was lost.
                series.exists = True
        try:
            await self._client.patch(EVENTS, series.name, series.as_patch(), series.namespace)
            self._metrics.event_written("patch")
        except NotFound:
            # The server forgets events after an hour: begin again under the same name.
            series.exists = False
            await self._write(series)
