"""Watches: the changes of a collection as lines, from now or from a resourceVersion on.

A watch has a cursor into its collection's watch cache, not a queue: a thousand watches of pods
share one list of events and, mostly, the encoded lines. A watch that is slower than the writers
takes several events at once; one that falls behind the watch cache gets 410 Expired and must list
again.

Lines are encoded on demand, at most a chunk at a time. While a watch waits for its client it holds
that chunk, and of the initial state only references.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import ApiError, expired
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.registry.context import RegistryContext
from kilonova.local.apiserver.registry.encoding import (
    encode,
    encode_watch_event,
    encode_watch_event_pieces,
)
from kilonova.local.apiserver.registry.lists import (
    all_entries,
    parse_resource_version,
    version_too_large_error,
)
from kilonova.local.apiserver.registry.options import WatchOptions
from kilonova.local.apiserver.registry.selection import EntrySelector, entry_selector
from kilonova.local.apiserver.storage import (
    Collection,
    Entry,
    EventType,
    RevisionCompacted,
    StorageEvent,
)

BOOKMARK_SECONDS = 60.0
_EVENTS_PER_CHUNK = 500
_CHUNK_BYTES = 128 << 10
"""The maximum size of the events in a chunk."""
_LARGE_EVENT_PIECE_BYTES = 32 << 10
"""An event that is larger than a chunk is sent in pieces of this size."""
_TIMER_TOLERANCE = 0.001
"""A timer may fire this much early: a deadline that is nearer has passed."""


class WatchEncoder(Protocol):
    """The encoding of a watch: whole objects, table rows, or metadata."""

    def encode_event(self, kind: Kind, event: StorageEvent, as_type: EventType) -> bytes: ...

    def encode_bookmark(self, kind: Kind, obj: JsonObject) -> bytes: ...


class ObjectWatchEncoder:
    """Objects without transformation."""

    def encode_event(self, kind: Kind, event: StorageEvent, as_type: EventType) -> bytes:
        return encode_watch_event(kind, event, as_type)

    def encode_bookmark(self, kind: Kind, obj: JsonObject) -> bytes:
        return encode({"type": "BOOKMARK", "object": obj}) + b"\n"


async def open_watch(
    registry: RegistryContext, target: ResourceTarget, options: WatchOptions, encoder: WatchEncoder
) -> AsyncIterator[bytes]:
    """The stream of lines. Raises before the first line if the watch cannot start."""
    rv = parse_resource_version(options.resource_version)
    sends = options.send_initial_events
    send_initial_events = rv == 0 if sends is None else sends
    selector = entry_selector(target, options)
    collection = registry.collection(target)
    if send_initial_events and rv > registry.store.revision:
        raise version_too_large_error(rv, registry.store.revision)
    cursor = collection.end_cursor
    if not send_initial_events and rv:
        try:
            cursor = collection.cursor_after_revision(rv)
        except RevisionCompacted:
            error = expired(f"too old resource version: {rv} ({collection.oldest_revision})")
            return _single_event(_error_event(error))
    return _WatchStream(
        registry,
        target.kind,
        collection,
        options,
        encoder,
        selector,
        cursor,
        0 if send_initial_events else rv,
        send_initial_events,
    ).stream()


@dataclass(slots=True)
class _WatchStream:
    registry: RegistryContext
    kind: Kind
    collection: Collection
    options: WatchOptions
    encoder: WatchEncoder
    selector: EntrySelector
    cursor: int
    start_revision: int  # only later events are sent
    send_initial_events: bool  # send the current state first

    async def stream(self) -> AsyncIterator[bytes]:
        if self.send_initial_events:
            for chunk in self._initial_events():
                yield chunk
                del chunk  # an idle watch holds no chunk
        loop = asyncio.get_running_loop()
        end = loop.time() + self.options.timeout_seconds
        next_bookmark = loop.time() + BOOKMARK_SECONDS
        selector = self.selector
        while True:
            try:
                events = self.collection.events_since(self.cursor)
            except RevisionCompacted:
                yield _error_event(expired("too old resource version: the watch fell behind"))
                return
            if events:
                del events[_chunk_length(events) :]
                self.cursor += len(events)
                for chunk in self._encode_chunks(events):
                    yield chunk
                    del chunk
                del events
                continue
            if not self._is_served():
                return
            now = loop.time()
            if end - now < _TIMER_TOLERANCE:
                return
            if self.options.bookmarks and next_bookmark - now < _TIMER_TOLERANCE:
                next_bookmark = now + BOOKMARK_SECONDS
                yield self._bookmark(self.registry.store.revision, {})
                continue
            until = min(end, next_bookmark) if self.options.bookmarks else end
            self.cursor = await self.collection.wait_changed(self.cursor, until, selector.interest)

    def _initial_events(self) -> Iterator[bytes]:
        """The state at one revision, after which the events continue."""
        rv, added = self.registry.store.revision, EventType.ADDED
        entries = self._current_entries()
        self.cursor = self.collection.end_cursor
        lines: list[bytes] = []
        size = 0
        for entry in entries:
            event = StorageEvent(added, entry, None, 0.0)
            large = self._is_large(event)
            if not large:
                lines.append(self.encoder.encode_event(self.kind, event, added))
                size += len(lines[-1])
            if lines and (large or size >= _CHUNK_BYTES or len(lines) == _EVENTS_PER_CHUNK):
                chunk = b"".join(lines)
                lines.clear()
                size = 0
                yield chunk
                del chunk
            if large:
                yield from encode_watch_event_pieces(
                    self.kind, event, added, _LARGE_EVENT_PIECE_BYTES
                )
        if lines:
            yield b"".join(lines)
        if (
            self.options.send_initial_events
        ):  # asked for, not implied: the client waits for the mark
            yield self._bookmark(rv, {"k8s.io/initial-events-end": "true"})

    def _encode_chunks(self, events: list[StorageEvent]) -> Iterator[bytes]:
        """The lines of these events; watches without selectors that keep up share the bytes."""
        if self._is_large(events[0]):
            seen = self._select_event(events[0])
            if seen is not None:
                yield from encode_watch_event_pieces(self.kind, *seen, _LARGE_EVENT_PIECE_BYTES)
            return
        selector = self.selector
        shares_encoding = isinstance(
            self.encoder, ObjectWatchEncoder
        ) and not self._is_before_start(events[0])
        if not shares_encoding or not selector.is_everything:
            if chunk := b"".join(self._encode_if_selected(event) for event in events):
                yield chunk
            return
        part = (self.cursor, len(events), self.kind, selector.namespace)
        if self.collection.shared_chunk is None or self.collection.shared_chunk[0] != part:
            self.collection.shared_chunk = (
                part,
                b"".join(self._encode_if_selected(event) for event in events),
            )
        if self.collection.shared_chunk[1]:
            yield self.collection.shared_chunk[1]

    def _current_entries(self) -> Iterable[Entry]:
        selector = self.selector
        if selector.is_everything and not selector.namespace:
            return self.collection.snapshot()
        return list(all_entries(self.collection, selector))

    def _is_large(self, event: StorageEvent) -> bool:
        return len(event.entry.body) > _CHUNK_BYTES and isinstance(self.encoder, ObjectWatchEncoder)

    def _is_served(self) -> bool:
        """A custom kind may be removed or replaced while it is watched."""
        kind = self.kind
        found = self.registry.served_kinds.find(kind.group, kind.version, kind.plural)
        return found is kind

    def _is_before_start(self, event: StorageEvent) -> bool:
        """A watch may start at a future resourceVersion."""
        return event.entry.rv <= self.start_revision

    def _encode_if_selected(self, event: StorageEvent) -> bytes:
        seen = self._select_event(event)
        return b"" if seen is None else self.encoder.encode_event(self.kind, *seen)

    def _select_event(self, event: StorageEvent) -> tuple[StorageEvent, EventType] | None:
        """The event as this watch sees it: an object may enter or leave its selection."""
        if self._is_before_start(event):
            return None
        selector = self.selector
        if not selector.namespace and selector.is_everything:
            return event, event.type
        after = event.type is not EventType.DELETED and selector.matches(event.entry)
        before = event.previous is not None and selector.matches(event.previous)
        if after:
            return event, EventType.MODIFIED if before else EventType.ADDED
        if before:
            return _deleted_event(event), EventType.DELETED
        return None

    def _bookmark(self, rv: int, annotations: dict[str, str]) -> bytes:
        metadata: JsonObject = {"resourceVersion": str(rv)}
        if annotations:
            metadata["annotations"] = annotations
        obj = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}
        return self.encoder.encode_bookmark(self.kind, obj)


def _chunk_length(events: list[StorageEvent]) -> int:
    """The number of events in a chunk: at least one."""
    size = 0
    for count, event in enumerate(events[:_EVENTS_PER_CHUNK]):
        size += len(event.entry.body)
        if size > _CHUNK_BYTES:
            return max(count, 1)
    return min(len(events), _EVENTS_PER_CHUNK)


def _deleted_event(event: StorageEvent) -> StorageEvent:
    """An object that left the selection has its previous state, and the version of the change."""
    if event.type is EventType.DELETED or event.previous is None:
        return event
    obj = event.previous.decode()
    obj["metadata"]["resourceVersion"] = str(event.entry.rv)
    previous = event.previous
    entry = Entry(
        previous.key, event.entry.rv, encode(obj), previous.uid, previous.labels, previous.fields
    )
    return StorageEvent(EventType.DELETED, entry, previous, event.time)


def _error_event(error: ApiError) -> bytes:
    return encode({"type": "ERROR", "object": error.status()}) + b"\n"


async def _single_event(line: bytes) -> AsyncIterator[bytes]:
    yield line
