"""Responses: stored objects as they are, as table rows, or as partial metadata."""

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice

import yaml

from kilonova.api.json import JsonObject
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.local.apimachinery.errors import ApiError, bad_request
from kilonova.local.apiserver.endpoints.negotiation import YAML, AcceptedMediaType, Representation
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.endpoints.tables import partial_metadata, render_table
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.registry.context import RegistryContext
from kilonova.local.apiserver.registry.encoding import (
    decode_entry,
    encode,
    encode_list,
    encode_list_item,
    encode_object,
)
from kilonova.local.apiserver.registry.lists import ListPage
from kilonova.local.apiserver.registry.watches import ObjectWatchEncoder, WatchEncoder
from kilonova.local.apiserver.storage import Entry, EventType, StorageEvent

_INCLUDE_OBJECT_VALUES = ("None", "Metadata", "Object")


def object_response(
    registry: RegistryContext,
    kind: Kind,
    entry: Entry,
    accepted: AcceptedMediaType,
    request: Request,
) -> Reply:
    """One object in the negotiated form."""
    match accepted.representation:
        case Representation.OBJECT:
            if accepted.media_type != YAML:
                return Reply(
                    200, encode_object(kind, entry) + b"\n", {"content-type": accepted.content_type}
                )
            obj = decode_entry(kind, entry)
        case Representation.TABLE:
            metadata = {"resourceVersion": str(entry.rv)}
            obj = _make_table(
                registry, kind, [decode_entry(kind, entry)], request, accepted, metadata
            )
        case Representation.METADATA:
            obj = _set_meta_version(partial_metadata(decode_entry(kind, entry)), accepted)
    return document_response(obj, accepted)


def list_response(
    registry: RegistryContext,
    kind: Kind,
    page: ListPage,
    accepted: AcceptedMediaType,
    request: Request,
) -> Reply | StreamReply:
    """A list in the negotiated form; a long one in pieces."""
    if accepted.single_object_only:
        package = kind.group.partition(".")[0] or "core"
        raise ApiError(
            406,
            "NotAcceptable",
            "you requested PartialObjectMetadata, but the requested object is a list "
            f"(*{package}.{kind.list_kind or kind.kind + 'List'})",
        )
    if accepted.representation is Representation.OBJECT:
        items = (encode_list_item(kind, entry) for entry in page.entries)
        pieces = encode_list(kind, items, page.rv, page.continue_token, page.remaining)
        if accepted.media_type == YAML:
            return document_response(_decode_pieces(pieces), accepted)
        headers = {"content-type": accepted.content_type}
        beginning = list(islice(pieces, 2))
        if len(beginning) == 1:
            return Reply(200, beginning[0], headers)
        return StreamReply(200, _stream_pieces(beginning, pieces), headers)
    metadata: JsonObject = {"resourceVersion": str(page.rv)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    if accepted.representation is Representation.TABLE:
        objects = [decode_entry(kind, entry) for entry in page.entries]
        return document_response(
            _make_table(registry, kind, objects, request, accepted, metadata), accepted
        )
    items = [
        _set_meta_version(partial_metadata(decode_entry(kind, entry)), accepted)
        for entry in page.entries
    ]
    return document_response(
        {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{accepted.version}",
            "metadata": metadata,
            "items": items,
        },
        accepted,
    )


def watch_encoder(
    registry: RegistryContext, accepted: AcceptedMediaType, request: Request
) -> WatchEncoder:
    """The encoder of a watch in the negotiated form."""
    if accepted.representation is Representation.OBJECT:
        return ObjectWatchEncoder()
    if accepted.representation is Representation.METADATA:
        return _TransformingWatchEncoder(
            lambda _, obj: _set_meta_version(partial_metadata(obj), accepted)
        )
    _include_object(request)  # checked now: an open watch cannot be rejected
    columns_sent = False

    def row(kind: Kind, obj: JsonObject) -> JsonObject:
        nonlocal columns_sent
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        made = _make_table(registry, kind, [obj], request, accepted, metadata)
        if columns_sent:
            made["columnDefinitions"] = None
        columns_sent = True
        return made

    return _TransformingWatchEncoder(row)


def document_response(obj: JsonObject, accepted: AcceptedMediaType) -> Reply:
    """A JSON object as a response, in YAML if that was negotiated."""
    if accepted.media_type == YAML:
        body = yaml.safe_dump(obj, default_flow_style=False, sort_keys=True).encode()
    else:
        body = encode(obj) + b"\n"
    return Reply(200, body, {"content-type": accepted.content_type})


def deletion_status(target: ResourceTarget, entry: Entry) -> Reply:
    """The response of a delete when the object has been removed."""
    details = {
        "name": target.name,
        "group": target.kind.group,
        "kind": target.kind.plural,
        "uid": entry.uid,
    }
    body: JsonObject = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {name: value for name, value in details.items() if value},
    }
    return Reply(200, encode(body), {"content-type": "application/json"})


def _make_table(
    registry: RegistryContext,
    kind: Kind,
    objects: list[JsonObject],
    request: Request,
    accepted: AcceptedMediaType,
    metadata: JsonObject,
) -> JsonObject:
    included = _include_object(request)
    made = render_table(
        kind, objects, include_object=included, now=registry.clock.now(), list_meta=metadata
    )
    if included == "Metadata":
        for row in made["rows"] or ():
            _set_meta_version(row["object"], accepted)
    return _set_meta_version(made, accepted)


def _include_object(request: Request) -> str:
    included = request.query_param("includeObject") or "Metadata"
    if included not in _INCLUDE_OBJECT_VALUES:
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{included}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return included


def _set_meta_version(obj: JsonObject, accepted: AcceptedMediaType) -> JsonObject:
    """The same in the requested version of meta.k8s.io; the versions do not differ otherwise."""
    obj["apiVersion"] = f"meta.k8s.io/{accepted.version}"
    return obj


class _TransformingWatchEncoder:
    """A watch in which every object is converted to another form."""

    def __init__(self, transform: Callable[[Kind, JsonObject], JsonObject]) -> None:
        self._transform = transform

    def encode_event(self, kind: Kind, event: StorageEvent, as_type: EventType) -> bytes:
        obj = self._transform(kind, decode_entry(kind, event.entry))
        return encode({"type": as_type.name, "object": obj}) + b"\n"

    def encode_bookmark(self, kind: Kind, obj: JsonObject) -> bytes:
        return encode({"type": "BOOKMARK", "object": self._transform(kind, obj)}) + b"\n"


def _decode_pieces(pieces: Iterator[bytes]) -> JsonObject:
    import msgspec

    return msgspec.json.decode(b"".join(pieces))


async def _stream_pieces(beginning: list[bytes], rest: Iterator[bytes]) -> AsyncIterator[bytes]:
    while beginning:
        yield beginning.pop(0)
    for piece in rest:
        yield piece
        del piece  # freed before the next one is built
