"""A stored object, and a change of one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import msgspec

from kilonova.api.json import JsonObject

_decode = msgspec.json.Decoder(dict).decode


class EventType(IntEnum):
    """The type of a change. The numbers are stored in the log file: do not change them."""

    ADDED = 0
    MODIFIED = 1
    DELETED = 2


class Entry:
    """One object at one resourceVersion: its JSON, and the values for selectors.

    `body` has no `kind` and `apiVersion`: these differ by the version it is served in.
    """

    __slots__ = ("body", "fields", "key", "labels", "rv", "uid")

    def __init__(
        self,
        key: str,
        rv: int,
        body: bytes,
        uid: str,
        labels: Mapping[str, str],
        fields: tuple[str, ...] | None,
    ) -> None:
        self.key = key
        self.rv = rv
        self.body = body
        self.uid = uid
        self.labels = labels
        self.fields = fields
        """Values of the selectable fields; None until they are needed."""

    def decode(self) -> JsonObject:
        """A new copy of the object, which the caller may modify."""
        return _decode(self.body)

    def __repr__(self) -> str:
        return f"Entry({self.key!r}, rv={self.rv})"


class StorageEvent:
    """A change: `entry` is the state after it (for a deletion, the last state)."""

    __slots__ = ("entry", "previous", "time", "type")

    def __init__(self, kind: EventType, entry: Entry, previous: Entry | None, time: float) -> None:
        self.type = kind
        self.entry = entry
        self.previous = previous
        self.time = time

    @property
    def rv(self) -> int:
        return self.entry.rv

    def __repr__(self) -> str:
        return f"StorageEvent({self.type.name}, {self.entry.key!r}, rv={self.entry.rv})"
