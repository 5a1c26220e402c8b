"""One server: what it has, polled at intervals, and its changes, one at a time."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from kilonova.kube import Backoff
from kilonova.serving.models.changes import Change
from kilonova.serving.models.desire import ObservedServer
from kilonova.serving.models.server_api import Index, ServerApi, ServerFailed
from kilonova.serving.models.usage import UsageMeter

_FIRST_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class LoaderTimes:
    """Times in seconds."""

    poll: float = 2.0
    """Between two questions to a server."""
    request: float = 5.0
    """Until a server that does not answer counts as away."""
    away: float = 15.0
    """How long a server may be away before its models are placed elsewhere."""
    settle: float = 2.0
    """Between the last request that gateways send for a model, and its end."""
    load: float = 1800.0
    unload: float = 120.0
    retry: Backoff = field(default_factory=lambda: Backoff(5.0, 300.0))
    """Before what failed is tried again on the same server."""


@dataclass(slots=True)
class _Failure:
    change: Change
    reason: str
    count: int
    retry_at: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a change ended; an empty reason is success."""

    change: Change
    reason: str = ""


class WatchedServer:
    """A server; `run` asks it until cancelled.

    `on_change` is called when there is something to decide, `on_outcome` when a change has ended.
    """

    def __init__(
        self,
        name: str,
        api: ServerApi,
        times: LoaderTimes,
        monotonic: Callable[[], float],
        on_change: Callable[[], None],
        on_outcome: Callable[[Outcome], None],
    ) -> None:
        self.name = name
        self._api = api
        self._times = times
        self._monotonic = monotonic
        self._on_change = on_change
        self._on_outcome = on_outcome
        self._index: Index | None = None
        self._restarts = self._index_restarts = 0
        self._is_gone = False
        self._answered_at = monotonic()
        self._is_away = False
        self._change: Change | None = None
        self._is_published = asyncio.Event()
        self._failures: dict[str, _Failure] = {}
        self._meter = UsageMeter()
        self._poll_now = asyncio.Event()

    async def run(self) -> None:
        """Ask the server what it has, again and again; more often while it starts."""
        interval = min(_FIRST_POLL_SECONDS, self._times.poll)
        try:
            while True:
                self._poll_now.clear()
                await self._ask()
                if self._index is not None:
                    interval = self._times.poll
                with suppress(TimeoutError):
                    async with asyncio.timeout(interval):
                        await self._poll_now.wait()
                interval = min(2 * interval, self._times.poll)
        finally:
            await self._api.close()

    def note_restarts(self, restarts: int) -> None:
        """How often the server has restarted. What it said before is not of the new process."""
        self._restarts = restarts

    def ask_soon(self) -> None:
        """Ask now rather than after the interval: something happened to the pod."""
        self._poll_now.set()

    def observe(self, was_managed: frozenset[str]) -> ObservedServer | None:
        """What is known of the server; None as long as it has not answered, or no longer does."""
        now = self._monotonic()
        if self._index is None or now - self._answered_at > self._times.away:
            return None
        return ObservedServer(
            name=self.name,
            index={} if self._is_gone else self._index,
            restarts=self._index_restarts,
            is_away=self._is_away,
            was_managed=was_managed,
            change=self._change,
            failures={
                name: each.reason
                for name, each in self._failures.items()
                if each.change.action == "Load" and self._index.get(name) != "READY"
            },
            resting=frozenset(name for name, each in self._failures.items() if each.retry_at > now),
            usage=self._meter.usage,
        )

    def begin(self, change: Change) -> None:
        """Reserve the server for a change; `carry_out` does it."""
        assert self._change is None, "a server does one thing at a time"
        self._change = change
        self._is_published.clear()

    def note_published(self) -> None:
        """The annotation of the pod reports what the server is doing."""
        if self._change is not None:
            self._is_published.set()

    async def carry_out(self, change: Change) -> None:
        """Do what was begun."""
        reason = ""
        try:
            if change.action == "Load":
                await self._load(change.model)
            else:
                await self._unload(change.model)
        except ServerFailed as error:
            reason = error.reason
        self._record(change, reason)
        await self._ask()
        self._change = None
        self._on_outcome(Outcome(change, reason))
        self._on_change()

    async def _load(self, model: str) -> None:
        try:
            async with asyncio.timeout(self._times.load):
                await self._api.load(model)
        except TimeoutError:
            raise ServerFailed(f"it was not loaded within {self._times.load:g} s") from None
        self._meter.note_use(model, self._monotonic())

    async def _unload(self, model: str) -> None:
        await self._is_published.wait()
        await asyncio.sleep(self._times.settle)
        try:
            async with asyncio.timeout(self._times.unload):
                await self._api.unload(model)
                while True:
                    if not await self._is_in_memory(model):
                        return
                    await asyncio.sleep(min(1.0, self._times.poll))
        except TimeoutError:
            raise ServerFailed(f"it was not unloaded within {self._times.unload:g} s") from None

    async def _is_in_memory(self, model: str) -> bool:
        return (await self._api.read_index()).get(model) in ("READY", "UNLOADING")

    def _record(self, change: Change, reason: str) -> None:
        if not reason:
            self._failures.pop(change.model, None)
            return
        former = self._failures.get(change.model)
        count = 1 if former is None else former.count + 1
        retry_at = self._monotonic() + self._times.retry.delay(count)
        self._failures[change.model] = _Failure(change, reason, count, retry_at)

    async def _ask(self) -> None:
        before = self._index, self._index_restarts, self._is_gone, self._is_away
        restarts = self._restarts
        try:
            async with asyncio.timeout(self._times.request):
                self._index = await self._api.read_index()
                self._index_restarts = restarts
                await self._read_usage()
            self._answered_at = self._monotonic()
            self._is_gone = self._is_away = False
        except TimeoutError:
            self._is_away = True
        except ServerFailed as error:
            self._is_away = True
            self._is_gone = error.is_gone
        if (self._index, self._index_restarts, self._is_gone, self._is_away) != before:
            self._on_change()

    async def _read_usage(self) -> None:
        try:
            counters = await self._api.read_counters()
        except ServerFailed:
            return  # the statistics extension is optional
        self._meter.record(counters, self._monotonic())
