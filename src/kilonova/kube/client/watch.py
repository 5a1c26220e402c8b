"""Decodes a watch stream: chunks of lines in, batches of typed events out.

Chunks end anywhere in a line. All complete lines of a chunk are decoded by one call of the parser,
straight to the resource's type, and returned as one batch: a busy watch costs one wake-up per
chunk, not one per event.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from functools import cache
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.client.codec import Undecodable, describe_undecodable
from kilonova.kube.client.errors import ConnectionFailed, error_from_status

T = TypeVar("T")

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation on the bookmark that ends the initial events of a streaming list."""


class Added(msgspec.Struct, Generic[T], tag="ADDED", tag_field="type"):
    """The object was created, or now matches the selectors."""

    object: T


class Modified(msgspec.Struct, Generic[T], tag="MODIFIED", tag_field="type"):
    """The object changed."""

    object: T


class Deleted(msgspec.Struct, Generic[T], tag="DELETED", tag_field="type"):
    """The object was deleted, or no longer matches; its last state, at the version of the
    deletion."""

    object: T


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str
    annotations: dict[str, str] | None = None


class _BookmarkObject(msgspec.Struct):
    metadata: _BookmarkMeta


class Bookmark(msgspec.Struct, tag="BOOKMARK", tag_field="type"):
    """All changes up to a version have been sent."""

    object: _BookmarkObject

    @property
    def resource_version(self) -> str:
        return self.object.metadata.resource_version

    @property
    def ends_initial_events(self) -> bool:
        """Whether this marks the end of the requested initial events."""
        return (self.object.metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true"


class _ErrorEvent(msgspec.Struct, tag="ERROR", tag_field="type"):
    object: dict[str, Any]


WatchEvent: TypeAlias = Added[T] | Modified[T] | Deleted[T] | Bookmark | Undecodable


class WatchStream(Generic[T]):
    """Batches of events, in order. Read by one task.

    An ERROR event is raised as `ApiStatusError` after the events before it were returned. The
    stream ends when the server ends it; an incomplete last line is dropped, as its event is sent
    again after resuming.
    """

    def __init__(self, chunks: AsyncIterator[bytes], type_: type[T]) -> None:
        self._chunks = chunks
        self._type = type_

    async def __aiter__(self) -> AsyncGenerator[list[WatchEvent[T]]]:
        torn: list[bytes] = []
        async for chunk in self._chunks:
            cut = chunk.rfind(b"\n") + 1
            if not cut:
                torn.append(chunk)
                continue
            lines = chunk[:cut]
            if torn:
                lines = b"".join((*torn, lines))
                torn.clear()
            if cut < len(chunk):
                torn.append(chunk[cut:])
            batch, failure = decode_watch_lines(lines, self._type)
            if batch:
                yield batch
            if failure is not None:
                raise error_from_status(failure)


def decode_watch_lines(
    lines: bytes, type_: type[T]
) -> tuple[list[WatchEvent[T]], JsonObject | None]:
    """The events in complete lines, and the Status that ends them, if there is one."""
    decoder = _watch_line_decoder(type_)
    try:
        batch = decoder.decode_lines(lines)
    except msgspec.ValidationError:
        batch = [_decode_line(line, decoder) for line in lines.splitlines() if line.strip()]
    except msgspec.DecodeError as error:
        raise ConnectionFailed(f"the watch sent invalid JSON: {error}") from error
    for position, event in enumerate(batch):
        if event.__class__ is _ErrorEvent:
            return batch[:position], event.object
    return batch, None


@cache
def _watch_line_decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(
        Added[type_] | Modified[type_] | Deleted[type_] | Bookmark | _ErrorEvent
    )


def _decode_line(line: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return decoder.decode(line)
    except msgspec.ValidationError as error:
        raw = msgspec.json.decode(line, type=JsonObject)
        return describe_undecodable(raw.get("object") or {}, error, raw.get("type") == "DELETED")
