"""The stream of changes that each open page gets.

A **viewer** takes messages that were encoded once for all. One that does not keep up gets no
backlog: only which rows it missed is noted, and they are made anew when it has taken what it has.
So what a viewer costs is bounded, however slow it is.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec

from kilonova.console.feeds import Feed, sse
from kilonova.console.troubles import Trouble, Troubles
from kilonova.kube import Key, Reflector

_SILENCE_SECONDS = 10.0
_STILL_HERE = b": still here\n\n"
_BACKLOG_BYTES = 1 << 20
_CAUGHT_UP_AT_ONCE = 250


class Greeting(msgspec.Struct, frozen=True):
    """What a page is told first."""

    version: str
    cluster: str
    actions: bool
    schedulers: Sequence[str]
    """Those whose pods count in queues."""


class Viewers:
    """All open pages. A part of the process: `run` tells them when caches are filled."""

    name = "viewers of the console"

    def __init__(
        self,
        greeting: Greeting,
        feeds: Iterable[Feed[Any]],
        caches: Iterable[Reflector[Any]],
        troubles: Troubles,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._greeting = greeting
        self._feeds = tuple(feeds)
        self._caches = tuple(caches)
        self._troubles = troubles
        self._now = now
        self._viewers: set[_Viewer] = set()
        self._anybody = asyncio.Event()
        troubles.listen(self._wake)

    async def run(self) -> None:
        """Wake viewers as caches are filled; then there is nothing to do."""
        await asyncio.gather(*map(self._when_filled, self._caches))
        await asyncio.Event().wait()

    async def somebody_looks(self) -> None:
        """Return when there is a viewer."""
        await self._anybody.wait()

    async def stream(self) -> AsyncGenerator[bytes]:
        """Everything, then changes, until it is closed."""
        viewer = _Viewer()
        self._viewers.add(viewer)
        self._anybody.set()
        try:
            yield self._hello()
            empty = list(self._feeds)
            while True:
                viewer.wake.clear()
                filled = [feed for feed in empty if feed.is_filled]
                for feed in filled:
                    feed.follow(viewer)
                    async for piece in feed.snapshot():
                        yield piece
                empty = [feed for feed in empty if feed not in filled]
                for message in self._how_tables_are(viewer, empty):
                    yield message
                while (message := viewer.take()) is not None:
                    yield message
                try:
                    async with asyncio.timeout(_SILENCE_SECONDS):
                        await viewer.wake.wait()
                except TimeoutError:
                    yield _STILL_HERE
        finally:
            for feed in self._feeds:
                feed.leave(viewer)
            self._viewers.discard(viewer)
            if not self._viewers:
                self._anybody.clear()

    def _hello(self) -> bytes:
        tables = [feed.table.name for feed in self._feeds]
        fields = msgspec.structs.asdict(self._greeting)
        return sse("hello", {**fields, "tables": tables, "now": round(self._now(), 3)})

    def _how_tables_are(self, viewer: "_Viewer", empty: Iterable[Feed[Any]]) -> Iterable[bytes]:
        """Which tables are on their way, and which cannot be read: if a viewer does not know."""
        standing = (self._troubles.of(feed.table.name) for feed in self._feeds)
        troubles = [trouble for trouble in standing if trouble is not None]
        stuck = {trouble.table for trouble in troubles}
        loading = [feed.table.name for feed in empty if feed.table.name not in stuck]
        if loading != viewer.loading:
            viewer.loading = loading
            yield sse("loading", {"tables": loading})
        if troubles != viewer.troubles:
            viewer.troubles = troubles
            yield sse("trouble", {"tables": troubles})

    async def _when_filled(self, cache: Reflector[Any]) -> None:
        await cache.wait_synced()
        self._wake()

    def _wake(self) -> None:
        for viewer in self._viewers:
            viewer.wake.set()


class _Viewer:
    """One open page: what it has still to be sent."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.loading: list[str] = []
        self.troubles: list[Trouble] = []
        self._ready: deque[bytes] = deque()
        self._bytes = 0
        self._missed: dict[Feed[Any], dict[Key, None]] = {}

    def offer(self, feed: Feed[Any], keys: Sequence[Key], message: bytes) -> None:
        # After a miss all of the table goes the same way: what is old must not come after.
        if feed in self._missed or self._bytes + len(message) > _BACKLOG_BYTES:
            self._missed.setdefault(feed, {}).update(dict.fromkeys(keys))
        else:
            self._ready.append(message)
            self._bytes += len(message)
        self.wake.set()

    def take(self) -> bytes | None:
        """What to send next; None when it has everything."""
        if self._ready:
            taken = b"".join(self._ready)
            self._ready.clear()
            self._bytes = 0
            return taken
        for feed, keys in self._missed.items():
            some = tuple(islice(keys, _CAUGHT_UP_AT_ONCE))
            for key in some:
                del keys[key]
            if not keys:
                del self._missed[feed]
            return feed.message(some)
        return None
