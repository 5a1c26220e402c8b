"""Which Event an occurrence belongs to, and whether it may be written now.

No I/O and no clock: `now` is seconds that only go forward, `wall` is what people read. Memory
is bounded: what was not used for longest is forgotten first, at the price of a new series.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from kilonova.api.json import JsonObject
from kilonova.kube.resource import Resource

V = TypeVar("V")

_MESSAGE_BYTES = 1024
_REASON_BYTES = 128
# A name holds 253 characters, of which the time, the id and a dot take some.
_OBJECT_NAME_LENGTH = 220
_ID_LENGTH = 8


@dataclass(frozen=True, slots=True)
class Reference:
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
    ) -> "Reference":
        """A reference to an object of a resource."""
        return cls(resource.api_version, resource.kind, name, namespace, uid)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One thing that happened to one object."""

    about: Reference
    type: str
    reason: str
    message: str
    action: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is written at most; the defaults are those of client-go.

    Per object and type, `burst` writes pass, and one more every `refill` seconds. Beyond
    `distinct` messages of one reason within `window` seconds they are folded. `remembered`
    bounds the memory.
    """

    burst: int = 25
    refill: float = 300.0
    distinct: int = 10
    window: float = 600.0
    remembered: int = 4096


@dataclass(slots=True)
class Series:
    """One Event: the latest of its occurrences, and how many there were."""

    name: str
    latest: Occurrence
    message: str
    first: datetime
    last: datetime
    count: int = 0
    exists: bool = False
    """Whether the server has it, as far as we know."""

    @property
    def namespace(self) -> str:
        """Events about cluster-wide objects live in `default`."""
        return self.latest.about.namespace or "default"

    def as_object(self, component: str, instance: str) -> JsonObject:
        """The complete Event."""
        about = self.latest.about
        involved = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "name": about.name,
            "namespace": about.namespace,
            "uid": about.uid,
            "fieldPath": about.field_path,
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
            "firstTimestamp": _time(self.first),
        } | self.as_patch()

    def as_patch(self) -> JsonObject:
        """The part that changes with each occurrence."""
        return {"message": self.message, "count": self.count, "lastTimestamp": _time(self.last)}


class Correlator:
    """Counts occurrences into series."""

    def __init__(self, limits: Limits, new_id: Callable[[], str]) -> None:
        self._limits = limits
        self._new_id = new_id
        self._last_named = 0
        self._series: _Recent[Series] = _Recent(limits.remembered)
        self._similar: _Recent[_Similar] = _Recent(limits.remembered)
        self._buckets: _Recent[_Bucket] = _Recent(limits.remembered)

    def count(self, occurrence: Occurrence, now: float, wall: datetime) -> Series:
        """The series that this occurrence belongs to, with it counted in."""
        occurrence = _shortened(occurrence)
        group = (occurrence.about, occurrence.type, occurrence.reason)
        similar = self._similar.get(group, lambda: _Similar(now))
        folded = similar.is_crowded(occurrence.message, now, self._limits)
        key: Hashable = group if folded else (*group, occurrence.message)
        series = self._series.get(key, lambda: self._new_series(occurrence, wall))
        series.count += 1
        series.last = wall
        series.latest = occurrence
        prefix = "(combined from similar events): " if folded else ""
        series.message = _cut(prefix + occurrence.message, _MESSAGE_BYTES)
        return series

    def may_write(self, series: Series, now: float) -> bool:
        """Take one from the object's allowance. What may not be written stays counted."""
        key = (series.latest.about, series.latest.type)
        bucket = self._buckets.get(key, lambda: _Bucket(float(self._limits.burst), now))
        return bucket.take(now, self._limits)

    def _new_series(self, occurrence: Occurrence, wall: datetime) -> Series:
        """Its name says when it began, in nanoseconds, as client-go's do.

        Times in Events are whole seconds, and lists are in the order of names: so events about one
        object are listed, and shown by kubectl, in the order in which they happened.
        """
        self._last_named = max(int(wall.timestamp() * 1_000_000) * 1_000, self._last_named + 1)
        about = occurrence.about.name[:_OBJECT_NAME_LENGTH]
        name = f"{about}.{self._last_named:016x}{self._new_id()[:_ID_LENGTH]}"
        return Series(name, occurrence, occurrence.message, wall, wall)


@dataclass(slots=True)
class _Similar:
    """The different messages of one reason about one object, of late."""

    last: float
    messages: set[str] = field(default_factory=set[str])

    def is_crowded(self, message: str, now: float, limits: Limits) -> bool:
        if now - self.last > limits.window:
            self.messages.clear()
        self.last = now
        if message in self.messages:
            return False
        if len(self.messages) >= limits.distinct:
            return True
        self.messages.add(message)
        return False


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float

    def take(self, now: float, limits: Limits) -> bool:
        self.tokens = min(float(limits.burst), self.tokens + (now - self.at) / limits.refill)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class _Recent(Generic[V]):
    """A dictionary that forgets what was not used for longest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], V]) -> V:
        found = self._items.get(key)
        if found is None:
            found = self._items[key] = make()
            if len(self._items) > self._size:
                self._items.popitem(last=False)
        else:
            self._items.move_to_end(key)
        return found


def _shortened(occurrence: Occurrence) -> Occurrence:
    message = _cut(occurrence.message, _MESSAGE_BYTES)
    reason = _cut(occurrence.reason, _REASON_BYTES)
    if message is occurrence.message and reason is occurrence.reason:
        return occurrence
    return replace(occurrence, message=message, reason=reason)


def _cut(text: str, limit: int) -> str:
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    return encoded[: limit - len("…".encode())].decode(errors="ignore") + "…"


def _time(wall: datetime) -> str:
    return wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
