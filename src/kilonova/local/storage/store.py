"""Collections in memory over the log: propose, commit together, publish."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import ReferenceType, ref

import msgspec
from sortedcontainers import SortedDict

from kilonova.local.storage.entries import Entry, Event, EventType
from kilonova.local.storage.fieldindex import FieldIndex, FieldOf
from kilonova.local.storage.log import Log, Row, StorageBroken
from kilonova.local.storage.sleepers import Interest, Sleepers

WINDOW_SECONDS = 75.0
WINDOW_EVENTS = 100_000
WINDOW_BYTES = 64 << 20
_TRIM_EVERY = 512
_PREFIX_END = chr(ord("/") + 1)


class Put(msgspec.Struct, frozen=True):
    """Store this entry."""

    entry: Entry


class Remove(msgspec.Struct, frozen=True):
    """Take the object away; `entry` is its last state, at the version of the deletion."""

    entry: Entry


Decision = Put | Remove | None
"""What a writer wants; None leaves things as they are."""

Decide = Callable[[Entry | None, int], Decision]
"""Given the newest entry and the resourceVersion that a change would get."""


class WindowExceeded(Exception):
    """A resourceVersion that is older than the window of events."""


class Snapshot:
    """All entries of a collection at one moment, in the order of their keys."""

    __slots__ = ("__weakref__", "_entries", "end")

    def __init__(self, entries: tuple[Entry, ...], end: int) -> None:
        self._entries = entries
        self.end = end

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)


class Collection:
    """The objects of one resource, and the recent changes to them."""

    def __init__(self, resource: str, oldest: int) -> None:
        self.resource = resource
        ordered: Any = SortedDict()
        self.entries: dict[str, Entry] = ordered
        self._keys_between: Callable[..., Iterator[str]] = ordered.irange
        self._position: Callable[[str], int] = ordered.bisect_right
        self._indexes: dict[str, FieldIndex] = {}
        self.proposed: dict[str, Entry | None] = {}
        self.events: list[Event] = []
        self.first = 0
        """Number of the first event in the window; a watch's cursor counts in the same way."""
        self.oldest = oldest
        """Watches resume from here or later."""
        self.newest = oldest
        self.sleepers = Sleepers()
        self.shared: tuple[object, bytes] | None = None
        """The last chunk that watches have in common, and which events it tells."""
        self._snapshot: ReferenceType[Snapshot] | None = None

    def get(self, key: str) -> Entry | None:
        return self.entries.get(key)

    def __len__(self) -> int:
        return len(self.entries)

    def between(self, namespace: str, after: str = "") -> Iterator[Entry]:
        """Entries in the order of their keys: of a namespace or all, past the key `after`.

        Clients say where to go on, and may name a key that comes before the namespace.
        """
        entries = self.entries
        if not entries:
            return iter(())
        low = f"{namespace}/" if namespace else ""
        high = f"{namespace}{_PREFIX_END}" if namespace else None
        start, inclusive = (after, (False, False)) if after > low else (low or None, (True, False))
        return (entries[key] for key in self._keys_between(start, high, inclusive))

    def snapshot(self) -> Snapshot:
        """All entries as they are now; whoever asks before the next change shares it."""
        found = self._snapshot() if self._snapshot is not None else None
        if found is None or found.end != self.end:
            found = Snapshot(tuple(self.entries.values()), self.end)
            self._snapshot = ref(found)
        return found

    def with_field(self, field: str, value: str, field_of: FieldOf) -> Iterator[Entry]:
        """Entries with this value in a field, in the order of their keys, by an index."""
        index = self._indexes.get(field)
        if index is None:
            index = self._indexes[field] = FieldIndex(field_of, self.entries.values())
        return (self.entries[key] for key in index.keys(value))

    def count_after(self, namespace: str, after: str) -> int:
        """How many entries `between` would give."""
        start = max(after, f"{namespace}/" if namespace else "")
        end = self._position(f"{namespace}{_PREFIX_END}") if namespace else len(self.entries)
        return end - self._position(start)

    def cursor_after(self, rv: int) -> int:
        """Where a watch that has seen everything up to `rv` goes on reading."""
        if rv < self.oldest:
            raise WindowExceeded
        events = self.events
        low, high = 0, len(events)
        while low < high:
            middle = (low + high) // 2
            if events[middle].entry.rv <= rv:
                low = middle + 1
            else:
                high = middle
        return self.first + low

    @property
    def end(self) -> int:
        """The cursor of a watch that has seen everything."""
        return self.first + len(self.events)

    def since(self, cursor: int) -> list[Event]:
        """The events from `cursor` on."""
        if cursor < self.first:
            raise WindowExceeded
        return self.events[cursor - self.first :]

    def as_of(self, rv: int) -> dict[str, Entry | None]:
        """What differs at `rv` from now: the entries of then, None where there was none."""
        changed: dict[str, Entry | None] = {}
        for event in reversed(self.events[self.cursor_after(rv) - self.first :]):
            changed[event.entry.key] = event.previous
        return changed

    async def changed(self, cursor: int, until: float, interest: Interest = None) -> int:
        """Wait for an event at `cursor` or later that may be of interest, or until a time of the
        event loop; tells where to read on.

        Whoever sleeps has missed nothing that is of interest, so what has left the window
        meanwhile need not be read.
        """
        if cursor >= self.end:
            await self.sleepers.sleep(interest, until)
        return max(cursor, self.first)

    def publish(self, event: Event) -> None:
        entry = event.entry
        settled = None if event.type is EventType.DELETED else entry
        for index in self._indexes.values():
            index.replace(self.entries.get(entry.key), settled)
        if settled is None:
            self.entries.pop(entry.key, None)
        else:
            self.entries[entry.key] = settled
        if self.proposed.get(entry.key, entry) is settled:
            self.proposed.pop(entry.key, None)
        self.events.append(event)
        self.newest = entry.rv

    def drop_before(self, number: int) -> None:
        """Forget the events numbered below `number`."""
        count = number - self.first
        if count > 0:
            self.oldest = self.events[count - 1].entry.rv
            del self.events[:count]
            self.first = number


class Store:
    """All collections. `read_entry` tells what selectors need to know of a stored body."""

    def __init__(
        self,
        log: Log | None,
        read_entry: Callable[[str, str, int, bytes], Entry],
        monotonic: Callable[[], float],
    ) -> None:
        self._log = log
        self._read_entry = read_entry
        self._monotonic = monotonic
        self._collections: dict[str, Collection] = {}
        self._thread = ThreadPoolExecutor(1, "store") if log else None
        self._batch: list[tuple[Collection, Event, asyncio.Future[None]]] = []
        self._committing: asyncio.Task[None] | None = None
        self._window: deque[tuple[Collection, Event]] = deque()
        self._window_bytes = 0
        self._dead: list[int] = []
        self._oldest = 0
        self._proposed_rv = 0
        self.rv = 0
        """The newest version that is on disk: what readers see."""
        self.broken: StorageBroken | None = None
        self.on_broken: Callable[[StorageBroken], None] = lambda _: None
        self._observers: dict[str, Callable[[Event], None]] = {}
        self._replay()

    def _replay(self) -> None:
        if self._log is None:
            return
        self._oldest, last = self._log.window()
        now = self._monotonic()
        for row in self._log.replay():
            entry = self._read_entry(row.resource, row.key, row.rv, row.body)
            collection = self.collection(row.resource)
            event = Event(EventType(row.event), entry, collection.get(row.key), now)
            collection.publish(event)
            if row.rv <= self._oldest:
                collection.drop_before(collection.end)
                collection.oldest = self._oldest
            else:
                self._remember(collection, event)
        self._proposed_rv = self.rv = max(last, 1)

    def collection(self, resource: str) -> Collection:
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection(resource, self._oldest)
        return found

    def observe(self, resource: str, observer: Callable[[Event], None]) -> None:
        """Call `observer` with every change of a collection, before the write is acknowledged."""
        self._observers[resource] = observer

    @property
    def resources(self) -> list[str]:
        """Names of the collections that were ever used."""
        return list(self._collections)

    def newest(self, collection: Collection, key: str) -> Entry | None:
        """The newest proposed entry: what a writer must start from, not what a reader may see."""
        if key in collection.proposed:
            return collection.proposed[key]
        return collection.entries.get(key)

    async def write(self, resource: str, key: str, *decisions: Decide) -> Entry | None:
        """Run the decisions now, each against the newest entry; return when all are on disk.

        Several are on disk together or not at all. Gives back the entry stored, the last state
        of the one removed, or the current one where nothing was to be done. A decision must
        not wait for anything; the first may raise.
        """
        if self.broken is not None:
            raise self.broken
        collection = self.collection(resource)
        entry: Entry | None = None
        waiting: list[asyncio.Future[None]] = []
        for decide in decisions:
            entry, done = self._propose(collection, key, decide)
            if done is not None:
                waiting.append(done)
        if waiting:
            await (asyncio.gather(*waiting) if len(waiting) > 1 else waiting[0])
        elif key in collection.proposed:
            await self._settled()
        return entry

    async def write_all(self, resource: str, changes: Iterable[tuple[str, Decide]]) -> None:
        """Run a decision for each key now; return when all are on disk, together or not at all."""
        waiting = self.propose(resource, changes)
        if waiting:
            await asyncio.gather(*waiting)

    def propose(
        self, resource: str, changes: Iterable[tuple[str, Decide]]
    ) -> list[asyncio.Future[None]]:
        """Run a decision for each key now, without waiting: for what must be on disk no later
        than the write that follows. Done when it is.
        """
        if self.broken is not None:
            raise self.broken
        collection = self.collection(resource)
        proposed = [self._propose(collection, key, decide)[1] for key, decide in changes]
        return [done for done in proposed if done is not None]

    def _propose(
        self, collection: Collection, key: str, decide: Decide
    ) -> tuple[Entry | None, asyncio.Future[None] | None]:
        current = self.newest(collection, key)
        decision = decide(current, self._proposed_rv + 1)
        if decision is None:
            return current, None
        self._proposed_rv += 1
        entry = decision.entry
        if isinstance(decision, Remove):
            kind = EventType.DELETED
            collection.proposed[key] = None
        else:
            kind = EventType.MODIFIED if current is not None else EventType.ADDED
            collection.proposed[key] = entry
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._batch.append((collection, Event(kind, entry, current, 0.0), done))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit(), name="store-commit")
        return entry, done

    async def _settled(self) -> None:
        while self._committing is not None:
            await asyncio.shield(self._committing)
        if self.broken is not None:
            raise self.broken

    async def _commit(self) -> None:
        loop = asyncio.get_running_loop()
        batch: list[tuple[Collection, Event, asyncio.Future[None]]] = []
        try:
            while self._batch:
                batch, self._batch = self._batch, []
                if self._log is not None:
                    rows = [
                        Row(
                            event.entry.rv,
                            collection.resource,
                            event.entry.key,
                            event.type,
                            event.entry.body,
                        )
                        for collection, event, _ in batch
                    ]
                    dead, self._dead = self._dead, []
                    await loop.run_in_executor(
                        self._thread, self._log.append, rows, dead, self._oldest
                    )
                self._publish(batch)
        except StorageBroken as error:
            self._stop(error, batch)
        finally:
            self._committing = None

    def _publish(self, batch: list[tuple[Collection, Event, asyncio.Future[None]]]) -> None:
        now = self._monotonic()
        touched: dict[str, tuple[Collection, list[Event]]] = {}
        for collection, event, done in batch:
            event.time = now
            collection.publish(event)
            self._remember(collection, event)
            observer = self._observers.get(collection.resource)
            if observer is not None:
                observer(event)
            touched.setdefault(collection.resource, (collection, []))[1].append(event)
            if not done.done():
                done.set_result(None)
        self.rv = batch[-1][1].entry.rv
        for collection, events in touched.values():
            collection.sleepers.wake(events)
        if len(self._window) % _TRIM_EVERY < len(batch):
            self.trim()

    def _remember(self, collection: Collection, event: Event) -> None:
        self._window.append((collection, event))
        self._window_bytes += len(event.entry.body)

    def trim(self) -> None:
        """Let go of events past the window; their rows leave the file with the next commit."""
        horizon = self._monotonic() - WINDOW_SECONDS
        window = self._window
        cut: dict[str, Collection] = {}
        while window:
            collection, event = window[0]
            within = len(window) <= WINDOW_EVENTS and self._window_bytes <= WINDOW_BYTES
            if within or event.time > horizon:
                break
            window.popleft()
            self._window_bytes -= len(event.entry.body)
            self._oldest = event.entry.rv
            if event.previous is not None:
                self._dead.append(event.previous.rv)
            if event.type is EventType.DELETED:
                self._dead.append(event.entry.rv)
            cut[collection.resource] = collection
        for collection in cut.values():
            collection.drop_before(collection.first + _count_until(collection, self._oldest))
        if cut:
            for collection in self._collections.values():
                collection.oldest = max(collection.oldest, self._oldest)

    def _stop(
        self,
        error: StorageBroken,
        batch: list[tuple[Collection, Event, asyncio.Future[None]]],
    ) -> None:
        self.broken = error
        for _, _, done in [*batch, *self._batch]:
            if not done.done():
                done.set_exception(error)
        self._batch = []
        for collection in self._collections.values():
            collection.proposed.clear()
        self.on_broken(error)

    async def close(self) -> None:
        """Finish what is proposed and close the file."""
        if self._committing is not None:
            await asyncio.shield(self._committing)
        if self._thread is not None and self._log is not None:
            self._thread.shutdown(wait=True)
            self._log.close()


def _count_until(collection: Collection, rv: int) -> int:
    count = 0
    for event in collection.events:
        if event.entry.rv > rv:
            break
        count += 1
    return count
