"""Objects as stored and as shown: bytes on both sides, decoded only where it must be."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from weakref import WeakValueDictionary

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.kinds.base import Kind
from kilonova.local.storage import Entry, Event, EventType

encode = msgspec.json.Encoder().encode
_NO_LABELS: dict[str, str] = {}


class _Metadata(msgspec.Struct):
    uid: str = ""
    labels: dict[str, str] = {}


class _Stored(msgspec.Struct):
    metadata: _Metadata


_decode_stored = msgspec.json.Decoder(_Stored).decode


def key_of(namespace: str, name: str) -> str:
    """Where an object stands in its collection; keys sort as Kubernetes lists them."""
    return f"{namespace}/{name}" if namespace else name


def make_entry(kind: Kind, key: str, rv: int, obj: JsonObject) -> Entry:
    """Encode `obj` (of the stored version) for the store. Takes the object over."""
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    metadata = obj["metadata"]
    metadata["resourceVersion"] = str(rv)
    fields = tuple(value_of(obj) for value_of in kind.behavior.selectable.values())
    labels = metadata.get("labels") or _NO_LABELS
    return Entry(key, rv, encode(obj), metadata["uid"], labels, fields)


def read_entry(key: str, rv: int, body: bytes) -> Entry:
    """An entry as the log gives it back; its fields are worked out when a selector asks."""
    metadata = _decode_stored(body).metadata
    return Entry(key, rv, body, metadata.uid, metadata.labels or _NO_LABELS, None)


def field_values(kind: Kind, entry: Entry) -> tuple[str, ...]:
    """The values that field selectors of this kind ask about, in the order of `selectable`."""
    if entry.fields is None:
        obj = entry.decode()
        entry.fields = tuple(value_of(obj) for value_of in kind.behavior.selectable.values())
    return entry.fields


def shown(kind: Kind, entry: Entry) -> JsonObject:
    """The object in the version of `kind`, decoded."""
    obj: JsonObject = {"kind": kind.kind, "apiVersion": kind.api_version, **entry.decode()}
    if kind.from_storage is not None:
        obj = kind.from_storage(obj)
        obj["kind"], obj["apiVersion"] = kind.kind, kind.api_version
    if entry.rv < kind.fresh_rv:
        kind.behavior.refresh(obj)
    return obj


def render(kind: Kind, entry: Entry) -> bytes:
    """The object's JSON in the version of `kind`; without decoding, where that can be."""
    if _is_stored_as_shown(kind, entry):
        return _head(kind.kind, kind.api_version) + entry.body[1:]
    return encode(shown(kind, entry))


def render_item(kind: Kind, entry: Entry) -> bytes:
    """As an item of a list: only custom kinds repeat their kind there, as Kubernetes has it."""
    if not kind.custom and kind.from_storage is None:
        return entry.body
    if kind.custom:
        return render(kind, entry)
    obj = shown(kind, entry)
    del obj["kind"], obj["apiVersion"]
    return encode(obj)


def render_list(
    kind: Kind, items: Iterable[bytes], rv: int, continue_token: str, remaining: int | None
) -> Iterator[bytes]:
    """A list in pieces of about a megabyte, each made when it is wanted: of a long one, no more
    than a piece need be in memory."""
    metadata: JsonObject = {"resourceVersion": str(rv)}
    if continue_token or kind.custom:
        metadata["continue"] = continue_token
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    list_kind = kind.list_kind or f"{kind.kind}List"
    head = encode({"kind": list_kind, "apiVersion": kind.api_version, "metadata": metadata})
    part: list[bytes] = []
    size = 0
    opening = first = head[:-1] + b',"items":['
    for item in items:
        part.append(item)
        size += len(item)
        if size > 1 << 20:
            yield opening + b",".join(part)
            opening, part, size = b",", [], 0
    yield (opening if part or opening is first else b"") + b",".join(part) + b"]}\n"


def watch_line(kind: Kind, event: Event, as_type: EventType) -> bytes:
    """One line of a watch."""
    return _line(as_type, render(kind, event.entry))


def watch_line_pieces(kind: Kind, event: Event, as_type: EventType, size: int) -> Iterator[bytes]:
    """The same line in pieces of `size`, cut from bytes that all watches share: a long one never
    exists as a whole."""
    entry = event.entry
    opening = b'{"type":"%s","object":' % as_type.name.encode()
    if _is_stored_as_shown(kind, entry):
        opening += _head(kind.kind, kind.api_version)
        body, first = entry.body, 1
    else:
        rendered = _rendered(kind, entry)  # kept as long as this one cuts from it
        body, first = rendered.body, 0
    yield opening + body[first:size]
    for start in range(size, len(body), size):
        yield body[start : start + size]
    yield b"}\n"


class _Rendered:
    """An object as a version shows it, for as long as somebody writes it."""

    __slots__ = ("__weakref__", "body", "of")

    def __init__(self, kind: Kind, entry: Entry) -> None:
        self.of = (kind, entry)  # whose ids are not given to others meanwhile
        self.body = render(kind, entry)


_being_written: WeakValueDictionary[tuple[int, int], _Rendered] = WeakValueDictionary()


def _rendered(kind: Kind, entry: Entry) -> _Rendered:
    key = (id(kind), id(entry))
    found = _being_written.get(key)
    if found is None:
        found = _being_written[key] = _Rendered(kind, entry)
    return found


def _is_stored_as_shown(kind: Kind, entry: Entry) -> bool:
    return kind.from_storage is None and entry.rv >= kind.fresh_rv


def _line(event_type: EventType, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (event_type.name.encode(), body)


@lru_cache(maxsize=1024)
def _head(kind: str, api_version: str) -> bytes:
    return encode({"kind": kind, "apiVersion": api_version})[:-1] + b","
