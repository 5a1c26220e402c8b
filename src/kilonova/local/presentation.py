"""How stored objects are shown: whole, as rows of a table, or by their metadata alone."""

from collections.abc import AsyncIterator, Callable

import yaml

from kilonova.api.json import JsonObject
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.errors import bad_request
from kilonova.local.kinds.base import Kind
from kilonova.local.negotiation import YAML, Shape, Wanted
from kilonova.local.registry.core import Registry
from kilonova.local.registry.objects import (
    encode,
    render,
    render_item,
    render_list,
    shown,
    watch_line,
)
from kilonova.local.registry.reads import Page
from kilonova.local.registry.watches import Line
from kilonova.local.routes import Target
from kilonova.local.storage import Entry, Event, EventType
from kilonova.local.tables import partial_metadata, table

_METADATA_VERSION = "meta.k8s.io/v1"
_INCLUDED = ("None", "Metadata", "Object")


def present_object(
    registry: Registry, kind: Kind, entry: Entry, form: Wanted, request: Request
) -> Reply:
    """One object in the form that the client wants."""
    match form.shape:
        case Shape.WHOLE:
            if form.media_type != YAML:
                return Reply(200, render(kind, entry) + b"\n", {"content-type": form.content_type})
            obj = shown(kind, entry)
        case Shape.TABLE:
            obj = _table(registry, kind, [entry], request, {"resourceVersion": str(entry.rv)})
        case Shape.METADATA:
            obj = partial_metadata(shown(kind, entry))
    return document(obj, form)


def present_list(
    registry: Registry, kind: Kind, page: Page, form: Wanted, request: Request
) -> Reply | StreamReply:
    """A list in the form that the client wants; a long one in pieces."""
    if form.shape is Shape.WHOLE:
        items = (render_item(kind, entry) for entry in page.entries)
        pieces = render_list(kind, items, page.rv, page.continue_token, page.remaining)
        if form.media_type == YAML:
            return document(_decoded(pieces), form)
        headers = {"content-type": form.content_type}
        if len(pieces) == 1:
            return Reply(200, pieces[0], headers)
        return StreamReply(200, _pieces(pieces), headers)
    metadata: JsonObject = {"resourceVersion": str(page.rv)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    if form.shape is Shape.TABLE:
        return document(_table(registry, kind, page.entries, request, metadata), form)
    items = [partial_metadata(shown(kind, entry)) for entry in page.entries]
    return document(
        {
            "kind": "PartialObjectMetadataList",
            "apiVersion": _METADATA_VERSION,
            "metadata": metadata,
            "items": items,
        },
        form,
    )


def watch_writer(registry: Registry, form: Wanted, request: Request) -> Line:
    """How the lines of a watch are written in the form that the client wants."""
    if form.shape is Shape.WHOLE:
        return watch_line
    if form.shape is Shape.METADATA:
        return _line_writer(lambda kind, entry: partial_metadata(shown(kind, entry)))
    first = True

    def rows(kind: Kind, entry: Entry) -> JsonObject:
        nonlocal first
        made = _table(registry, kind, [entry], request, {"resourceVersion": str(entry.rv)})
        if not first:
            made["columnDefinitions"] = None
        first = False
        return made

    return _line_writer(rows)


def document(obj: JsonObject, form: Wanted) -> Reply:
    """A JSON object as an answer, in YAML where that is wanted."""
    if form.media_type == YAML:
        body = yaml.safe_dump(obj, default_flow_style=False, sort_keys=True).encode()
    else:
        body = encode(obj) + b"\n"
    return Reply(200, body, {"content-type": form.content_type})


def status_success(target: Target, entry: Entry) -> Reply:
    """What a delete answers when the object is gone."""
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


def _table(
    registry: Registry, kind: Kind, entries: list[Entry], request: Request, metadata: JsonObject
) -> JsonObject:
    included = request.param("includeObject") or "Metadata"
    if included not in _INCLUDED:
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{included}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return table(
        kind,
        [shown(kind, entry) for entry in entries],
        include_object=included,
        now=registry.clock.now(),
        list_meta=metadata,
    )


def _line_writer(form: Callable[[Kind, Entry], JsonObject]) -> Line:
    def write(kind: Kind, event: Event, as_type: EventType) -> bytes:
        return encode({"type": as_type.name, "object": form(kind, event.entry)}) + b"\n"

    return write


def _decoded(pieces: list[bytes]) -> JsonObject:
    import msgspec

    return msgspec.json.decode(b"".join(pieces))


async def _pieces(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
