"""The event stream of each open page.

Messages are encoded once for all viewers. A viewer that does not keep up has a bounded backlog:
beyond it only the keys of changed rows are recorded, and their rows are encoded when the viewer
has received the backlog. Memory per viewer is therefore bounded.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec

from kilonova.component.health import ComponentProblems, DegradedComponent
from kilonova.console.feeds.feed import Feed, encode_event
from kilonova.console.feeds.table_errors import TableError, TableErrors
from kilonova.kube import Key, Reflector

_KEEPALIVE_SECONDS = 10.0
_KEEPALIVE = b": heartbeat\n\n"
_BACKLOG_BYTES = 1 << 20
_CATCH_UP_BATCH = 250


class ServerInfo(msgspec.Struct, frozen=True):
    """The first message to a page."""

    version: str
    cluster: str
    actions: bool
    schedulers: Sequence[str]
    """Schedulers whose pods count in queues."""


class Viewers:
    """All open pages. A runnable: `run` wakes them when reflectors have synced."""

    name = "console viewers"

    def __init__(
        self,
        server_info: ServerInfo,
        feeds: Iterable[Feed[Any]],
        reflectors: Iterable[Reflector[Any]],
        table_errors: TableErrors,
        problems: ComponentProblems | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._server_info = server_info
        self._feeds = tuple(feeds)
        self._reflectors = tuple(reflectors)
        self._table_errors = table_errors
        self._problems = problems or ComponentProblems()
        self._now = now
        self._viewers: set[_Viewer] = set()
        self._has_viewers = asyncio.Event()
        table_errors.subscribe(self._wake)
        self._problems.subscribe(self._wake)

    async def run(self) -> None:
        """Wake viewers as reflectors sync; then wait until cancelled."""
        await asyncio.gather(*map(self._wake_when_synced, self._reflectors))
        await asyncio.Event().wait()

    async def wait_for_viewer(self) -> None:
        """Wait until there is a viewer."""
        await self._has_viewers.wait()

    async def stream(self) -> AsyncGenerator[bytes]:
        """All tables, then changes, until closed."""
        viewer = _Viewer()
        self._viewers.add(viewer)
        self._has_viewers.set()
        try:
            yield self._server_info_message()
            unsent = list(self._feeds)
            while True:
                viewer.wake.clear()
                synced = [feed for feed in unsent if feed.is_synced]
                for feed in synced:
                    feed.follow(viewer)
                    async for chunk in feed.snapshot():
                        yield chunk
                unsent = [feed for feed in unsent if feed not in synced]
                for message in self._table_state_messages(viewer, unsent):
                    yield message
                while (message := viewer.next_message()) is not None:
                    yield message
                try:
                    async with asyncio.timeout(_KEEPALIVE_SECONDS):
                        await viewer.wake.wait()
                except TimeoutError:
                    yield _KEEPALIVE
        finally:
            for feed in self._feeds:
                feed.unfollow(viewer)
            self._viewers.discard(viewer)
            if not self._viewers:
                self._has_viewers.clear()

    def _server_info_message(self) -> bytes:
        tables = [feed.table.name for feed in self._feeds]
        fields = msgspec.structs.asdict(self._server_info)
        return encode_event("hello", {**fields, "tables": tables, "now": round(self._now(), 3)})

    def _table_state_messages(
        self, viewer: "_Viewer", unsent: Iterable[Feed[Any]]
    ) -> Iterable[bytes]:
        """Messages about loading and unreadable tables and degraded components, if they changed for
        this viewer."""
        current = (self._table_errors.get(feed.table.name) for feed in self._feeds)
        errors = [error for error in current if error is not None]
        failing = {error.table for error in errors}
        loading = [feed.table.name for feed in unsent if feed.table.name not in failing]
        if loading != viewer.loading:
            viewer.loading = loading
            yield encode_event("loading", {"tables": loading})
        if errors != viewer.table_errors:
            viewer.table_errors = errors
            yield encode_event("table-errors", {"tables": errors})
        degraded = self._problems.degraded
        if degraded != viewer.degraded:
            viewer.degraded = degraded
            yield encode_event("degraded", {"components": degraded})

    async def _wake_when_synced(self, reflector: Reflector[Any]) -> None:
        await reflector.wait_for_sync()
        self._wake()

    def _wake(self) -> None:
        for viewer in self._viewers:
            viewer.wake.set()


class _Viewer:
    """One open page, with its backlog."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.loading: list[str] = []
        self.table_errors: list[TableError] = []
        self.degraded: list[DegradedComponent] = []
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._missed: dict[Feed[Any], dict[Key, None]] = {}

    def offer(self, feed: Feed[Any], keys: Sequence[Key], message: bytes) -> None:
        # Once keys of a table are recorded, so are later ones: rows must stay in order.
        if feed in self._missed or self._pending_bytes + len(message) > _BACKLOG_BYTES:
            self._missed.setdefault(feed, {}).update(dict.fromkeys(keys))
        else:
            self._pending.append(message)
            self._pending_bytes += len(message)
        self.wake.set()

    def next_message(self) -> bytes | None:
        """The next message; None if the viewer is up to date."""
        if self._pending:
            backlog = b"".join(self._pending)
            self._pending.clear()
            self._pending_bytes = 0
            return backlog
        for feed, keys in self._missed.items():
            batch = tuple(islice(keys, _CATCH_UP_BATCH))
            for key in batch:
                del keys[key]
            if not keys:
                del self._missed[feed]
            return feed.encode_changes(batch)
        return None
