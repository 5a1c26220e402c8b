"""Watching: changes of a collection as lines, from now or from a version, until told to stop.

A watch keeps a cursor into its collection's window, not a queue of its own: a thousand
watches of pods share one list of events and, mostly, the bytes of their lines. A watch that
is slower than the writers takes several events at once when its turn comes; one that falls
behind the window is told to list again.

Lines are made when they are asked for, at most a chunk of them. While a watch waits for its client
it holds that chunk, and of the initial state only references.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Protocol

from kilonova.api.json import JsonObject
from kilonova.kube.transport import Request
from kilonova.local.errors import (
    ApiError,
    Problem,
    bad_request,
    expired,
    forbidden_field,
    invalid,
    not_supported,
)
from kilonova.local.kinds.base import Kind
from kilonova.local.registry.core import Registry
from kilonova.local.registry.objects import encode, watch_line, watch_line_pieces
from kilonova.local.registry.reads import read_everything, too_large_version, version_asked
from kilonova.local.registry.selection import Selection, selection
from kilonova.local.routes import Target
from kilonova.local.storage import Collection, Entry, Event, EventType, WindowExceeded

BOOKMARK_SECONDS = 60.0
_LONGEST = (1800, 3600)
_EVENTS_PER_CHUNK = 500
_CHUNK_BYTES = 128 << 10
"""A chunk has no more events than come to this."""
_PIECE_BYTES = 32 << 10
"""An event that is larger than a chunk comes in pieces of this size."""
_TICK = 0.001
"""What is nearer than this is now: a timer may ring a moment early."""


class Writer(Protocol):
    """How a watch is written: whole objects, table rows, metadata."""

    def line(self, kind: Kind, event: Event, as_type: EventType) -> bytes: ...

    def bookmark(self, kind: Kind, obj: JsonObject) -> bytes: ...


class WholeObjects:
    """Objects as they are."""

    def line(self, kind: Kind, event: Event, as_type: EventType) -> bytes:
        return watch_line(kind, event, as_type)

    def bookmark(self, kind: Kind, obj: JsonObject) -> bytes:
        return encode({"type": "BOOKMARK", "object": obj}) + b"\n"


@dataclass(frozen=True, slots=True)
class WatchOptions:
    chosen: Selection
    rv: int
    initial: bool  # send the present state first
    mark_end: bool  # … and a bookmark that says that it is complete
    bookmarks: bool
    seconds: float


def watch_options(target: Target, request: Request, random: Random) -> WatchOptions:
    """What kind of watch is asked for; refuses what Kubernetes refuses."""
    _check_watch_options(request)
    sends = request.param("sendInitialEvents")
    rv = version_asked(request)
    initial = _true(sends) if sends is not None else rv == 0
    return WatchOptions(
        selection(target, request),
        rv,
        initial,
        sends is not None and _true(sends),
        _true(request.param("allowWatchBookmarks")),
        _seconds(request, random),
    )


async def watch(
    registry: Registry, target: Target, options: WatchOptions, writer: Writer
) -> AsyncIterator[bytes]:
    """The stream of lines. Raises before the first line if it cannot start at all."""
    collection = registry.collection(target)
    if options.initial and options.rv > registry.store.rv:
        raise too_large_version(options.rv, registry.store.rv)
    cursor = collection.end
    if not options.initial and options.rv:
        try:
            cursor = collection.cursor_after(options.rv)
        except WindowExceeded:
            error = expired(f"too old resource version: {options.rv} ({collection.oldest})")
            return _single_line(_error_line(error))
    return _Stream(registry, target.kind, collection, options, writer, cursor).lines()


@dataclass(slots=True)
class _Stream:
    registry: Registry
    kind: Kind
    collection: Collection
    options: WatchOptions
    writer: Writer
    cursor: int

    async def lines(self) -> AsyncIterator[bytes]:
        if self.options.initial:
            for chunk in self._initial():
                yield chunk
                del chunk  # an idle watch holds nothing
        loop = asyncio.get_running_loop()
        end = loop.time() + self.options.seconds
        next_bookmark = loop.time() + BOOKMARK_SECONDS
        chosen = self.options.chosen
        while True:
            try:
                events = self.collection.since(self.cursor)
            except WindowExceeded:
                yield _error_line(expired("too old resource version: the watch fell behind"))
                return
            if events:
                del events[_together(events) :]
                self.cursor += len(events)
                for chunk in self._chunks(events):
                    yield chunk
                    del chunk
                del events
                continue
            if not self._is_served():
                return
            now = loop.time()
            if end - now < _TICK:
                return
            if self.options.bookmarks and next_bookmark - now < _TICK:
                next_bookmark = now + BOOKMARK_SECONDS
                yield self._bookmark(self.registry.store.rv, {})
                continue
            until = min(end, next_bookmark) if self.options.bookmarks else end
            self.cursor = await self.collection.changed(self.cursor, until, chosen.interest)

    def _initial(self) -> Iterator[bytes]:
        """The state of one moment, from which the events go on."""
        rv, added = self.registry.store.rv, EventType.ADDED
        present = self._present()
        self.cursor = self.collection.end
        lines: list[bytes] = []
        size = 0
        for entry in present:
            event = Event(added, entry, None, 0.0)
            large = self._is_large(event)
            if not large:
                lines.append(self.writer.line(self.kind, event, added))
                size += len(lines[-1])
            if lines and (large or size >= _CHUNK_BYTES or len(lines) == _EVENTS_PER_CHUNK):
                chunk = b"".join(lines)
                lines.clear()
                size = 0
                yield chunk
                del chunk
            if large:
                yield from watch_line_pieces(self.kind, event, added, _PIECE_BYTES)
        if lines:
            yield b"".join(lines)
        if self.options.mark_end:
            yield self._bookmark(rv, {"k8s.io/initial-events-end": "true"})

    def _chunks(self, events: list[Event]) -> Iterator[bytes]:
        """The lines of these events; watches without selectors that keep pace share one text."""
        if self._is_large(events[0]):
            seen = self._seen(events[0])
            if seen is not None:
                yield from watch_line_pieces(self.kind, *seen, _PIECE_BYTES)
            return
        chosen = self.options.chosen
        whole = isinstance(self.writer, WholeObjects) and not self._is_early(events[0])
        if not whole or not chosen.is_everything:
            if chunk := b"".join(self._told(event) for event in events):
                yield chunk
            return
        part = (self.cursor, len(events), self.kind, chosen.namespace)
        if self.collection.shared is None or self.collection.shared[0] != part:
            self.collection.shared = (part, b"".join(self._told(event) for event in events))
        if self.collection.shared[1]:
            yield self.collection.shared[1]

    def _present(self) -> Iterable[Entry]:
        chosen = self.options.chosen
        if chosen.is_everything and not chosen.namespace:
            return self.collection.snapshot()
        return list(read_everything(self.collection, chosen))

    def _is_large(self, event: Event) -> bool:
        return len(event.entry.body) > _CHUNK_BYTES and isinstance(self.writer, WholeObjects)

    def _is_served(self) -> bool:
        """A custom kind may go, or become another, while it is watched."""
        kind = self.kind
        found = self.registry.catalog.find(kind.group, kind.version, kind.plural)
        return found is kind

    def _is_early(self, event: Event) -> bool:
        """A watch may be asked to begin at a version that is yet to come."""
        return event.entry.rv <= self.options.rv and not self.options.initial

    def _told(self, event: Event) -> bytes:
        seen = self._seen(event)
        return b"" if seen is None else self.writer.line(self.kind, *seen)

    def _seen(self, event: Event) -> tuple[Event, EventType] | None:
        """The event as this watch sees it: an object may enter or leave what it selects."""
        if self._is_early(event):
            return None
        chosen = self.options.chosen
        if not chosen.namespace and chosen.is_everything:
            return event, event.type
        after = event.type is not EventType.DELETED and chosen.holds(event.entry)
        before = event.previous is not None and chosen.holds(event.previous)
        if after:
            return event, EventType.MODIFIED if before else EventType.ADDED
        if before:
            return _last_state(event), EventType.DELETED
        return None

    def _bookmark(self, rv: int, annotations: dict[str, str]) -> bytes:
        metadata: JsonObject = {"resourceVersion": str(rv)}
        if annotations:
            metadata["annotations"] = annotations
        obj = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}
        return self.writer.bookmark(self.kind, obj)


def _together(events: list[Event]) -> int:
    """How many of them make a chunk: at least one."""
    size = 0
    for count, event in enumerate(events[:_EVENTS_PER_CHUNK]):
        size += len(event.entry.body)
        if size > _CHUNK_BYTES:
            return max(count, 1)
    return min(len(events), _EVENTS_PER_CHUNK)


def _last_state(event: Event) -> Event:
    """An object that left the selection is shown as it was, at the version at which it left."""
    if event.type is EventType.DELETED or event.previous is None:
        return event
    obj = event.previous.decode()
    obj["metadata"]["resourceVersion"] = str(event.entry.rv)
    previous = event.previous
    entry = Entry(
        previous.key, event.entry.rv, encode(obj), previous.uid, previous.labels, previous.fields
    )
    return Event(EventType.DELETED, entry, previous, event.time)


def _error_line(error: ApiError) -> bytes:
    return encode({"type": "ERROR", "object": error.status()}) + b"\n"


async def _single_line(line: bytes) -> AsyncIterator[bytes]:
    yield line


def _seconds(request: Request, random: Random) -> float:
    text = request.param("timeoutSeconds")
    if text is None:
        return random.uniform(*_LONGEST)
    try:
        value = int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    return float(value) if value > 0 else random.uniform(*_LONGEST)


def _true(text: str | None) -> bool:
    return text in ("true", "1", "True", "TRUE", "t", "T")


def _check_watch_options(request: Request) -> None:
    match = request.param("resourceVersionMatch")
    sends = request.param("sendInitialEvents")
    problems: list[Problem] = []
    path = "resourceVersionMatch"
    if sends is not None and match != "NotOlderThan":
        problems.append(
            forbidden_field(path, f"sendInitialEvents requires setting {path} to NotOlderThan")
        )
    if match:
        if sends is None:
            problems.append(
                forbidden_field(
                    path, f"{path} is forbidden for watch unless sendInitialEvents is provided"
                )
            )
        if match != "NotOlderThan":
            problems.append(not_supported(path, match, ["NotOlderThan"]))
        if request.param("continue"):
            problems.append(forbidden_field(path, f"{path} is forbidden when continue is provided"))
    if problems:
        raise invalid("meta.k8s.io", "ListOptions", "", problems)
