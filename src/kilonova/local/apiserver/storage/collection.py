"""A collection: the objects of one resource in memory, with indexes and the watch cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from weakref import ReferenceType, ref

from sortedcontainers import SortedDict

from kilonova.local.apiserver.storage.entries import Entry, EventType, StorageEvent
from kilonova.local.apiserver.storage.field_index import FieldIndex, FieldReader
from kilonova.local.apiserver.storage.waiters import Waiters, WatchInterest

_PREFIX_END = chr(ord("/") + 1)


class RevisionCompacted(Exception):
    """The resourceVersion is older than the watch cache."""


class CollectionSnapshot:
    """All entries of a collection at one revision, in key order."""

    __slots__ = ("__weakref__", "_entries", "end")

    def __init__(self, entries: tuple[Entry, ...], end: int) -> None:
        self._entries = entries
        self.end = end

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)


class Collection:
    """The objects of one resource, and its watch cache."""

    def __init__(self, resource: str, oldest: int) -> None:
        self.resource = resource
        ordered: Any = SortedDict()
        self.entries: dict[str, Entry] = ordered
        self._key_range: Callable[..., Iterator[str]] = ordered.irange
        self._bisect_key: Callable[[str], int] = ordered.bisect_right
        self._indexes: dict[str, FieldIndex] = {}
        self.proposed: dict[str, Entry | None] = {}
        self.events: list[StorageEvent] = []
        self.first_event = 0
        """The number of the first event in the watch cache; cursors of watches count likewise."""
        self.oldest_revision = oldest
        """Watches may resume from this revision or later."""
        self.newest_revision = oldest
        self.waiters = Waiters()
        self.shared_chunk: tuple[object, bytes] | None = None
        """The last chunk that watches share, and the events it encodes."""
        self._snapshot: ReferenceType[CollectionSnapshot] | None = None

    def get(self, key: str) -> Entry | None:
        return self.entries.get(key)

    def __len__(self) -> int:
        return len(self.entries)

    def range_entries(self, namespace: str, after: str = "") -> Iterator[Entry]:
        """Entries in key order: of a namespace or all, after the key `after`.

        `after` comes from clients, and may be a key before the namespace.
        """
        entries = self.entries
        if not entries:
            return iter(())
        low = f"{namespace}/" if namespace else ""
        high = f"{namespace}{_PREFIX_END}" if namespace else None
        start, inclusive = (after, (False, False)) if after > low else (low or None, (True, False))
        return (entries[key] for key in self._key_range(start, high, inclusive))

    def snapshot(self) -> CollectionSnapshot:
        """All current entries; shared by all callers until the next change."""
        found = self._snapshot() if self._snapshot is not None else None
        if found is None or found.end != self.end_cursor:
            found = CollectionSnapshot(tuple(self.entries.values()), self.end_cursor)
            self._snapshot = ref(found)
        return found

    def entries_by_field(self, field: str, value: str, read_field: FieldReader) -> Iterator[Entry]:
        """Entries with this value in a field, in key order, by an index."""
        index = self._indexes.get(field)
        if index is None:
            index = self._indexes[field] = FieldIndex(read_field, self.entries.values())
        return (self.entries[key] for key in index.keys(value))

    def count_after(self, namespace: str, after: str) -> int:
        """The number of entries that `range_entries` returns."""
        start = max(after, f"{namespace}/" if namespace else "")
        end = self._bisect_key(f"{namespace}{_PREFIX_END}") if namespace else len(self.entries)
        return end - self._bisect_key(start)

    def cursor_after_revision(self, rv: int) -> int:
        """The cursor of a watch that has seen everything up to `rv`."""
        if rv < self.oldest_revision:
            raise RevisionCompacted
        events = self.events
        low, high = 0, len(events)
        while low < high:
            middle = (low + high) // 2
            if events[middle].entry.rv <= rv:
                low = middle + 1
            else:
                high = middle
        return self.first_event + low

    @property
    def end_cursor(self) -> int:
        """The cursor of a watch that has seen everything."""
        return self.first_event + len(self.events)

    def events_since(self, cursor: int) -> list[StorageEvent]:
        """The events from `cursor` on."""
        if cursor < self.first_event:
            raise RevisionCompacted
        return self.events[cursor - self.first_event :]

    def changes_since_revision(self, rv: int) -> dict[str, Entry | None]:
        """The differences of the state at `rv` from the current one: the old entries, None if
        absent.
        """
        changed: dict[str, Entry | None] = {}
        for event in reversed(self.events[self.cursor_after_revision(rv) - self.first_event :]):
            changed[event.entry.key] = event.previous
        return changed

    async def wait_changed(self, cursor: int, until: float, interest: WatchInterest = None) -> int:
        """Wait for an event at `cursor` or later that matches `interest`, or until a time of the
        event loop; returns the cursor to continue from.

        A waiting watch has missed no event that matches, so events that were trimmed from the watch
        cache meanwhile need not be read.
        """
        if cursor >= self.end_cursor:
            await self.waiters.wait(interest, until)
        return max(cursor, self.first_event)

    def publish(self, event: StorageEvent) -> None:
        entry = event.entry
        current = None if event.type is EventType.DELETED else entry
        for index in self._indexes.values():
            index.update(self.entries.get(entry.key), current)
        if current is None:
            self.entries.pop(entry.key, None)
        else:
            self.entries[entry.key] = current
        if self.proposed.get(entry.key, entry) is current:
            self.proposed.pop(entry.key, None)
        self.events.append(event)
        self.newest_revision = entry.rv

    def trim_events(self, number: int) -> None:
        """Remove the events numbered below `number`."""
        count = number - self.first_event
        if count > 0:
            self.oldest_revision = self.events[count - 1].entry.rv
            del self.events[:count]
            self.first_event = number

    def count_events_until(self, rv: int) -> int:
        """The number of leading events in the watch cache up to `rv`."""
        count = 0
        for event in self.events:
            if event.entry.rv > rv:
                break
            count += 1
        return count
