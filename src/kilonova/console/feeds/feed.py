"""A live table: sends the changed rows of a store to its followers.

An event only marks the object's key as changed. The rows of all changed keys are computed and
encoded together, once for all followers: immediately if nothing was sent recently, else 0.1 s
after the last message. Without followers no event handler is registered. An object whose row
cannot be computed is omitted, and logged once.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from heapq import nlargest
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kilonova.component.console import Table
from kilonova.kube import Key
from kilonova.kube.observability.structured_logging import get_logger

T = TypeVar("T")

_COALESCE_SECONDS = 0.1
_BATCH_SIZE = 250
"""Rows encoded before yielding to the event loop: a few milliseconds."""
_MAX_LATEST = 500
"""Rows in the snapshot of a table with `last_activity`."""

log = get_logger(__name__)


class Follower(Protocol):
    """A receiver of changes."""

    def offer(self, feed: "Feed[Any]", keys: Sequence[Key], message: bytes) -> None:
        """Accept a message, or record its keys and fetch their rows later. Must not block."""
        ...


class RowSource(Protocol[T]):
    """The objects behind a feed: a `Store`, or a join of several."""

    @property
    def has_synced(self) -> bool:
        """Whether the initial list is complete."""
        ...

    def get(self, key: Key) -> T | None: ...

    def keys(self) -> Collection[Key]: ...

    def objects(self) -> Collection[T]: ...

    def key_of(self, obj: T) -> Key: ...

    def add_event_handler(
        self, handler: Callable[[T | None, T | None], None]
    ) -> Callable[[], None]:
        """Call a handler for each later change; returns a function that removes it."""
        ...


class Feed(Generic[T]):
    """One live table."""

    def __init__(
        self, table: Table[T], store: RowSource[T], *, now: Callable[[], float] = time.time
    ) -> None:
        self.table = table
        self._store = store
        self._now = now
        self._followers: list[Follower] = []
        self._unsubscribe: Callable[[], None] | None = None
        self._changed: dict[Key, None] = {}
        self._unencodable: set[Key] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._sent_at = 0.0

    @property
    def is_synced(self) -> bool:
        """Whether the store has synced."""
        return self._store.has_synced

    def follow(self, follower: Follower) -> None:
        """Send each later change to a follower."""
        self._followers.append(follower)
        if self._unsubscribe is None:
            self._unsubscribe = self._store.add_event_handler(self._mark_changed)
            # Objects may have been deleted while there was no event handler.
            self._unencodable = {
                key for key in self._unencodable if self._store.get(key) is not None
            }

    def unfollow(self, follower: Follower) -> None:
        """Stop sending to a follower; does nothing if it does not follow."""
        if follower in self._followers:
            self._followers.remove(follower)
        if not self._followers and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
            self._changed.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    async def snapshot(self) -> AsyncIterator[bytes]:
        """The whole table as one message, in chunks between which the event loop runs.

        Call `follow` before: changes during the snapshot are then sent after it.
        """
        at = int(self._now() * 1000)
        head = f'{{"table":"{self.table.name}","reset":true,"deleted":[],"at":{at},"upserted":['
        yield b"event: rows\ndata: " + head.encode()
        keys = self._initial_keys()
        separator = b""
        for start in range(0, len(keys), _BATCH_SIZE):
            rows = filter(None, map(self._encode_row, keys[start : start + _BATCH_SIZE]))
            if chunk := b",".join(rows):
                yield separator + chunk
                separator = b","
            await asyncio.sleep(0)
        yield b"]}\n\n"

    def encode_changes(self, keys: Iterable[Key]) -> bytes:
        """The current rows of these keys, as one message."""
        upserted: list[msgspec.Raw] = []
        deleted: list[str] = []
        for key in keys:
            row = self._encode_row(key)
            if row is None:
                deleted.append(self.table.id_of(key))
            else:
                upserted.append(msgspec.Raw(row))
        changes = _Changes(self.table.name, upserted, deleted, int(self._now() * 1000))
        return encode_event("rows", changes)

    def _initial_keys(self) -> list[Key]:
        last_activity = self.table.last_activity
        if last_activity is None:
            return list(self._store.keys())
        return list(
            map(self._store.key_of, nlargest(_MAX_LATEST, self._store.objects(), key=last_activity))
        )

    def _encode_row(self, key: Key) -> bytes | None:
        """The encoded row of an object; None if there is none or its row cannot be computed."""
        obj = self._store.get(key)
        try:
            row = None if obj is None else msgspec.json.encode(self.table.row(obj))
        except Exception:
            # A malformed object must not end the streams of all viewers.
            if key not in self._unencodable:
                self._unencodable.add(key)
                id = self.table.id_of(key)
                log.exception(
                    "object omitted from table: its row cannot be computed",
                    table=self.table.name,
                    id=id,
                )
            return None
        self._unencodable.discard(key)
        return row

    def _mark_changed(self, old: T | None, new: T | None) -> None:
        obj = old if new is None else new
        assert obj is not None
        self._changed[self._store.key_of(obj)] = None
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._sent_at + _COALESCE_SECONDS, self._send_changes)

    def _send_changes(self) -> None:
        keys = tuple(islice(self._changed, _BATCH_SIZE))
        for key in keys:
            del self._changed[key]
        loop = asyncio.get_running_loop()
        self._sent_at = loop.time()
        self._timer = loop.call_at(self._sent_at, self._send_changes) if self._changed else None
        message = self.encode_changes(keys)
        for follower in self._followers:
            follower.offer(self, keys, message)


class _Changes(msgspec.Struct, frozen=True):
    table: str
    upserted: list[msgspec.Raw]
    deleted: list[str]
    at: int


def encode_event(event: str, value: object) -> bytes:
    """A server-sent event; the JSON encoder writes no line breaks."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(value))
