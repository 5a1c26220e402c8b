"""Encoding of entries for the store and for clients, decoding only where necessary."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from weakref import WeakValueDictionary

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.storage import Entry, EventType, StorageEvent

encode = msgspec.json.Encoder().encode
_NO_LABELS: dict[str, str] = {}


class _Metadata(msgspec.Struct):
    uid: str = ""
    labels: dict[str, str] = {}


class _StoredObject(msgspec.Struct):
    metadata: _Metadata


_decode_stored = msgspec.json.Decoder(_StoredObject).decode


def object_key(namespace: str, name: str) -> str:
    """The key of an object in its collection; keys sort in the order of Kubernetes' lists."""
    return f"{namespace}/{name}" if namespace else name


def encode_entry(kind: Kind, key: str, rv: int, obj: JsonObject) -> Entry:
    """Encode `obj` (in the storage version) for the store. Takes ownership of `obj`."""
    obj.pop("kind", None)
    obj.pop("apiVersion", None)
    metadata = obj["metadata"]
    metadata["resourceVersion"] = str(rv)
    fields = tuple(value_of(obj) for value_of in kind.strategy.selectable_fields.values())
    labels = metadata.get("labels") or _NO_LABELS
    return Entry(key, rv, encode(obj), metadata["uid"], labels, fields)


def read_entry(key: str, rv: int, body: bytes) -> Entry:
    """An entry read from the log; its field values are computed when a selector needs them."""
    metadata = _decode_stored(body).metadata
    return Entry(key, rv, body, metadata.uid, metadata.labels or _NO_LABELS, None)


def field_values(kind: Kind, entry: Entry) -> tuple[str, ...]:
    """The values of this kind's selectable fields, in the order of `selectable_fields`."""
    if entry.fields is None:
        obj = entry.decode()
        entry.fields = tuple(value_of(obj) for value_of in kind.strategy.selectable_fields.values())
    return entry.fields


def decode_entry(kind: Kind, entry: Entry) -> JsonObject:
    """The object in the version of `kind`, decoded."""
    obj: JsonObject = {"kind": kind.kind, "apiVersion": kind.api_version, **entry.decode()}
    if kind.from_storage is not None:
        obj = kind.from_storage(obj)
        obj["kind"], obj["apiVersion"] = kind.kind, kind.api_version
    if entry.rv < kind.schema_revision:
        kind.strategy.upgrade_stored(obj)
    return obj


def encode_object(kind: Kind, entry: Entry) -> bytes:
    """The object's JSON in the version of `kind`; without decoding if possible."""
    if _is_stored_as_served(kind, entry):
        return _type_meta_prefix(kind.kind, kind.api_version) + entry.body[1:]
    return encode(decode_entry(kind, entry))


def encode_list_item(kind: Kind, entry: Entry) -> bytes:
    """The object as a list item. As in Kubernetes, only custom kinds have kind and apiVersion."""
    if not kind.is_custom and kind.from_storage is None:
        return entry.body
    if kind.is_custom:
        return encode_object(kind, entry)
    obj = decode_entry(kind, entry)
    del obj["kind"], obj["apiVersion"]
    return encode(obj)


def encode_list(
    kind: Kind, items: Iterable[bytes], rv: int, continue_token: str, remaining: int | None
) -> Iterator[bytes]:
    """A list in pieces of about a megabyte, each encoded on demand: a long list is never in memory
    as a whole.
    """
    metadata: JsonObject = {"resourceVersion": str(rv)}
    if continue_token or kind.is_custom:
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


def encode_watch_event(kind: Kind, event: StorageEvent, as_type: EventType) -> bytes:
    """One line of a watch."""
    return _watch_event(as_type, encode_object(kind, event.entry))


def encode_watch_event_pieces(
    kind: Kind, event: StorageEvent, as_type: EventType, size: int
) -> Iterator[bytes]:
    """The same line in pieces of `size`, cut from bytes that all watches share: a long line never
    exists as a whole.
    """
    entry = event.entry
    opening = b'{"type":"%s","object":' % as_type.name.encode()
    if _is_stored_as_served(kind, entry):
        opening += _type_meta_prefix(kind.kind, kind.api_version)
        body, first = entry.body, 1
    else:
        # The reference keeps the shared bytes alive while pieces are cut from them.
        encoded = _share_encoding(kind, entry)
        body, first = encoded.body, 0
    yield opening + body[first:size]
    for start in range(size, len(body), size):
        yield body[start : start + size]
    yield b"}\n"


class _EncodedObject:
    """The encoding of an object in a version, alive as long as a response uses it."""

    __slots__ = ("__weakref__", "_source", "body")

    def __init__(self, kind: Kind, entry: Entry) -> None:
        self._source = (kind, entry)  # keeps both alive: the cache key contains their ids
        self.body = encode_object(kind, entry)


_shared_encodings: WeakValueDictionary[tuple[int, int], _EncodedObject] = WeakValueDictionary()


def _share_encoding(kind: Kind, entry: Entry) -> _EncodedObject:
    key = (id(kind), id(entry))
    found = _shared_encodings.get(key)
    if found is None:
        found = _shared_encodings[key] = _EncodedObject(kind, entry)
    return found


def _is_stored_as_served(kind: Kind, entry: Entry) -> bool:
    return kind.from_storage is None and entry.rv >= kind.schema_revision


def _watch_event(event_type: EventType, body: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (event_type.name.encode(), body)


@lru_cache(maxsize=1024)
def _type_meta_prefix(kind: str, api_version: str) -> bytes:
    return encode({"kind": kind, "apiVersion": api_version})[:-1] + b","
