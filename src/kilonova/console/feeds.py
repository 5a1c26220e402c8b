"""Follows the store of one table, and tells its followers which rows changed.

Changes only mark a key. The rows of all marked keys are made and encoded together, once for all
followers: at once where the table was quiet, else a tenth of a second after the last time. Without
followers the store is not even listened to. An object of which no row can be made is left out, and
the log says so once.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from heapq import nlargest
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kilonova.console.tables import Table
from kilonova.kube import Key
from kilonova.kube.logging import get_logger

T = TypeVar("T")

_QUIET_SECONDS = 0.1
_AT_ONCE = 250
"""So many rows are made without giving way to others: a few milliseconds."""
_LATEST = 500
"""So many objects are shown of tables that show only the latest."""

log = get_logger(__name__)


class Follower(Protocol):
    """Whoever is told of changes."""

    def offer(self, feed: "Feed[Any]", keys: Sequence[Key], message: bytes) -> None:
        """Take a message, or only note its keys and ask for their rows later. Must be quick."""
        ...


class Objects(Protocol[T]):
    """What a feed follows: a `Store`, or what is joined from several."""

    @property
    def synced(self) -> bool:
        """Whether all that there is has come."""
        ...

    def get(self, key: Key) -> T | None: ...

    def keys(self) -> Collection[Key]: ...

    def objects(self) -> Collection[T]: ...

    def key_of(self, obj: T) -> Key: ...

    def subscribe(self, handler: Callable[[T | None, T | None], None]) -> Callable[[], None]:
        """Tell a handler of each change from now on; call what is returned to stop."""
        ...


class Feed(Generic[T]):
    """One table, live."""

    def __init__(
        self, table: Table[T], store: Objects[T], *, now: Callable[[], float] = time.time
    ) -> None:
        self.table = table
        self._store = store
        self._now = now
        self._followers: list[Follower] = []
        self._unsubscribe: Callable[[], None] | None = None
        self._changed: dict[Key, None] = {}
        self._left_out: set[Key] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._told = 0.0

    @property
    def is_filled(self) -> bool:
        """Whether the store holds all that there is."""
        return self._store.synced

    def follow(self, follower: Follower) -> None:
        """Tell somebody of each change from now on."""
        self._followers.append(follower)
        if self._unsubscribe is None:
            self._unsubscribe = self._store.subscribe(self._mark)
            # Some may have gone while nobody looked.
            self._left_out = {key for key in self._left_out if self._store.get(key) is not None}

    def leave(self, follower: Follower) -> None:
        """Tell somebody no more; nothing happens if nothing was told."""
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
        """The whole table as one message, in pieces between which others have their turn.

        Follow first: what changes meanwhile is told afterwards.
        """
        at = int(self._now() * 1000)
        head = f'{{"table":"{self.table.name}","reset":true,"gone":[],"at":{at},"put":['
        yield b"event: rows\ndata: " + head.encode()
        keys = self._first()
        separator = b""
        for start in range(0, len(keys), _AT_ONCE):
            rows = filter(None, map(self._row, keys[start : start + _AT_ONCE]))
            if piece := b",".join(rows):
                yield separator + piece
                separator = b","
            await asyncio.sleep(0)
        yield b"]}\n\n"

    def message(self, keys: Iterable[Key]) -> bytes:
        """How the objects of these keys are now, as one message."""
        put: list[msgspec.Raw] = []
        gone: list[str] = []
        for key in keys:
            row = self._row(key)
            if row is None:
                gone.append(self.table.id_of(key))
            else:
                put.append(msgspec.Raw(row))
        changes = _Changes(self.table.name, put, gone, int(self._now() * 1000))
        return sse("rows", changes)

    def _first(self) -> list[Key]:
        age_of = self.table.age_of
        if age_of is None:
            return list(self._store.keys())
        return list(map(self._store.key_of, nlargest(_LATEST, self._store.objects(), key=age_of)))

    def _row(self, key: Key) -> bytes | None:
        """The row of an object, encoded; None if there is none, or no row can be made of it."""
        obj = self._store.get(key)
        try:
            row = None if obj is None else msgspec.json.encode(self.table.row(obj))
        except Exception:
            # Whatever is odd about one object, it must not end the streams of everybody.
            if key not in self._left_out:
                self._left_out.add(key)
                id = self.table.id_of(key)
                log.exception("no row can be made: left out", table=self.table.name, id=id)
            return None
        self._left_out.discard(key)
        return row

    def _mark(self, old: T | None, new: T | None) -> None:
        obj = old if new is None else new
        assert obj is not None
        self._changed[self._store.key_of(obj)] = None
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._told + _QUIET_SECONDS, self._tell)

    def _tell(self) -> None:
        keys = tuple(islice(self._changed, _AT_ONCE))
        for key in keys:
            del self._changed[key]
        loop = asyncio.get_running_loop()
        self._told = loop.time()
        self._timer = loop.call_at(self._told, self._tell) if self._changed else None
        message = self.message(keys)
        for follower in self._followers:
            follower.offer(self, keys, message)


class _Changes(msgspec.Struct, frozen=True):
    table: str
    put: list[msgspec.Raw]
    gone: list[str]
    at: int


def sse(event: str, value: object) -> bytes:
    """A server-sent event; JSON has no line breaks."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(value))
