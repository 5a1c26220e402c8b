"""Decides which Event an occurrence belongs to, and whether it may be written now.

No I/O and no clock: `now` is in monotonic seconds, `wall` is written for readers. Memory is
bounded: the least recently used series is dropped first, and a later occurrence starts a new one.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from kilonova.api.json import JsonObject
from kilonova.kube.client.resource import Resource

V = TypeVar("V")

_MESSAGE_BYTES = 1024
_REASON_BYTES = 128
# A name has at most 253 characters, of which the time, the id and a dot take some.
_OBJECT_NAME_LENGTH = 220
_ID_LENGTH = 8


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object that an event is about."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    field_path: str = ""

    @classmethod
    def to(
        cls, resource: Resource[Any], name: str, namespace: str = "", uid: str = ""
    ) -> "ObjectReference":
        """A reference to an object of a resource."""
        return cls(resource.api_version, resource.kind, name, namespace, uid)


@dataclass(frozen=True, slots=True)
class EventOccurrence:
    """One thing that happened to one object."""

    regarding: ObjectReference
    type: str
    reason: str
    message: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class CorrelatorOptions:
    """Rate limits and aggregation; the defaults are client-go's.

    Per object and type, `burst` writes pass, and one more every `refill_seconds`. Beyond
    `max_similar` messages of one reason within `aggregation_seconds` they are aggregated.
    `cache_size` bounds the memory.
    """

    burst: int = 25
    refill_seconds: float = 300.0
    max_similar: int = 10
    aggregation_seconds: float = 600.0
    cache_size: int = 4096


@dataclass(slots=True)
class EventSeries:
    """One Event: the latest of its occurrences, and their number."""

    name: str
    latest: EventOccurrence
    message: str
    first: datetime
    last: datetime
    count: int = 0
    exists: bool = False
    """Whether the server has it, as far as we know."""

    @property
    def namespace(self) -> str:
        """Events about cluster-scoped objects are in `default`."""
        return self.latest.regarding.namespace or "default"

    def as_object(self, component: str, instance: str) -> JsonObject:
        """The complete Event."""
        regarding = self.latest.regarding
        involved = {
            "apiVersion": regarding.api_version,
            "kind": regarding.kind,
            "name": regarding.name,
            "namespace": regarding.namespace,
            "uid": regarding.uid,
            "fieldPath": regarding.field_path,
        }
        return {
            "metadata": {"name": self.name, "namespace": self.namespace},
            "involvedObject": {key: value for key, value in involved.items() if value},
            "type": self.latest.type,
            "reason": self.latest.reason,
            "action": self.latest.action,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": instance,
            "firstTimestamp": _format_time(self.first),
        } | self.as_patch()

    def as_patch(self) -> JsonObject:
        """The fields that change with each occurrence."""
        return {
            "message": self.message,
            "count": self.count,
            "lastTimestamp": _format_time(self.last),
        }


class EventCorrelator:
    """Aggregates occurrences into series."""

    def __init__(self, options: CorrelatorOptions, new_id: Callable[[], str]) -> None:
        self._options = options
        self._new_id = new_id
        self._last_name_time = 0
        self._series: _LruCache[EventSeries] = _LruCache(options.cache_size)
        self._aggregates: _LruCache[_EventAggregate] = _LruCache(options.cache_size)
        self._buckets: _LruCache[_TokenBucket] = _LruCache(options.cache_size)

    def record(self, occurrence: EventOccurrence, now: float, wall: datetime) -> EventSeries:
        """Count the occurrence and return its series."""
        occurrence = _truncate_occurrence(occurrence)
        group = (occurrence.regarding, occurrence.type, occurrence.reason)
        similar = self._aggregates.get_or_create(group, lambda: _EventAggregate(now))
        folded = similar.should_aggregate(occurrence.message, now, self._options)
        key: Hashable = group if folded else (*group, occurrence.message)
        series = self._series.get_or_create(key, lambda: self._new_series(occurrence, wall))
        series.count += 1
        series.last = wall
        series.latest = occurrence
        prefix = "(combined from similar events): " if folded else ""
        series.message = _truncate(prefix + occurrence.message, _MESSAGE_BYTES)
        return series

    def can_write(self, series: EventSeries, now: float) -> bool:
        """Take a token from the object's rate limit. What may not be written stays counted."""
        key = (series.latest.regarding, series.latest.type)
        bucket = self._buckets.get_or_create(
            key, lambda: _TokenBucket(float(self._options.burst), now)
        )
        return bucket.take(now, self._options)

    def _new_series(self, occurrence: EventOccurrence, wall: datetime) -> EventSeries:
        """A new series, whose name contains its start time in nanoseconds, as client-go's do.

        Times in Events are whole seconds, and lists are sorted by name: so events about one object
        are listed, and shown by kubectl, in the order in which they happened.
        """
        self._last_name_time = max(
            int(wall.timestamp() * 1_000_000) * 1_000, self._last_name_time + 1
        )
        object_name = occurrence.regarding.name[:_OBJECT_NAME_LENGTH]
        name = f"{object_name}.{self._last_name_time:016x}{self._new_id()[:_ID_LENGTH]}"
        return EventSeries(name, occurrence, occurrence.message, wall, wall)


@dataclass(slots=True)
class _EventAggregate:
    """The recent distinct messages of one reason about one object."""

    last: float
    messages: set[str] = field(default_factory=set[str])

    def should_aggregate(self, message: str, now: float, options: CorrelatorOptions) -> bool:
        if now - self.last > options.aggregation_seconds:
            self.messages.clear()
        self.last = now
        if message in self.messages:
            return False
        if len(self.messages) >= options.max_similar:
            return True
        self.messages.add(message)
        return False


@dataclass(slots=True)
class _TokenBucket:
    tokens: float
    refilled_at: float

    def take(self, now: float, options: CorrelatorOptions) -> bool:
        self.tokens = min(
            float(options.burst), self.tokens + (now - self.refilled_at) / options.refill_seconds
        )
        self.refilled_at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class _LruCache(Generic[V]):
    """A dictionary that drops the least recently used item."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[Hashable, V] = OrderedDict()

    def get_or_create(self, key: Hashable, create: Callable[[], V]) -> V:
        found = self._items.get(key)
        if found is None:
            found = self._items[key] = create()
            if len(self._items) > self._size:
                self._items.popitem(last=False)
        else:
            self._items.move_to_end(key)
        return found


def _truncate_occurrence(occurrence: EventOccurrence) -> EventOccurrence:
    message = _truncate(occurrence.message, _MESSAGE_BYTES)
    reason = _truncate(occurrence.reason, _REASON_BYTES)
    if message is occurrence.message and reason is occurrence.reason:
        return occurrence
    return replace(occurrence, message=message, reason=reason)


def _truncate(text: str, limit: int) -> str:
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: limit - len("…".encode())].decode(errors="ignore") + "…"


def _format_time(wall: datetime) -> str:
    return wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
