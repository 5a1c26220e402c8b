"""How stored objects are shown: whole, as rows of a table, or by their metadata alone."""

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice

import yaml

from kilonova.api.json import JsonObject
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.errors import ApiError, bad_request
from kilonova.local.kinds.base import Kind
from kilonova.local.negotiation import YAML, Shape, Wanted
from kilonova.local.registry.core import Registry
from kilonova.local.registry.objects import (
    encode,
    render,
    render_item,
    render_list,
    shown,
)
from kilonova.local.registry.reads import Page
from kilonova.local.registry.watches import WholeObjects, Writer
from kilonova.local.routes import Target
from kilonova.local.storage import Entry, Event, EventType
from kilonova.local.tables import partial_metadata, table

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
            metadata = {"resourceVersion": str(entry.rv)}
            obj = _table(registry, kind, [shown(kind, entry)], request, form, metadata)
        case Shape.METADATA:
            obj = _of_version(partial_metadata(shown(kind, entry)), form)
    return document(obj, form)


def present_list(
    registry: Registry, kind: Kind, page: Page, form: Wanted, request: Request
) -> Reply | StreamReply:
    """A list in the form that the client wants; a long one in pieces."""
    if form.of_one:
        package = kind.group.partition(".")[0] or "core"
        raise ApiError(
            406,
            "NotAcceptable",
            "you requested PartialObjectMetadata, but the requested object is a list "
            f"(*{package}.{kind.list_kind or kind.kind + 'List'})",
        )
    if form.shape is Shape.WHOLE:
        items = (render_item(kind, entry) for entry in page.entries)
        pieces = render_list(kind, items, page.rv, page.continue_token, page.remaining)
        if form.media_type == YAML:
            return document(_decoded(pieces), form)
        headers = {"content-type": form.content_type}
        beginning = list(islice(pieces, 2))
        if len(beginning) == 1:
            return Reply(200, beginning[0], headers)
        return StreamReply(200, _pieces(beginning, pieces), headers)
    metadata: JsonObject = {"resourceVersion": str(page.rv)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    if form.shape is Shape.TABLE:
        objects = [shown(kind, entry) for entry in page.entries]
        return document(_table(registry, kind, objects, request, form, metadata), form)
    items = [_of_version(partial_metadata(shown(kind, entry)), form) for entry in page.entries]
    return document(
        {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{form.version}",
            "metadata": metadata,
            "items": items,
        },
        form,
    )


def watch_writer(registry: Registry, form: Wanted, request: Request) -> Writer:
    """How a watch is written in the form that the client wants."""
    if form.shape is Shape.WHOLE:
        return WholeObjects()
    if form.shape is Shape.METADATA:
        return _Shown(lambda _, obj: _of_version(partial_metadata(obj), form))
    _included(request)  # a watch that has begun can refuse nothing
    columns_told = False

    def row(kind: Kind, obj: JsonObject) -> JsonObject:
        nonlocal columns_told
        metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        made = _table(registry, kind, [obj], request, form, metadata)
        if columns_told:
            made["columnDefinitions"] = None
        columns_told = True
        return made

    return _Shown(row)


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
    registry: Registry,
    kind: Kind,
    objects: list[JsonObject],
    request: Request,
    form: Wanted,
    metadata: JsonObject,
) -> JsonObject:
    included = _included(request)
    made = table(
        kind, objects, include_object=included, now=registry.clock.now(), list_meta=metadata
    )
    if included == "Metadata":
        for row in made["rows"] or ():
            _of_version(row["object"], form)
    return _of_version(made, form)


def _included(request: Request) -> str:
    included = request.param("includeObject") or "Metadata"
    if included not in _INCLUDED:
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{included}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return included


def _of_version(obj: JsonObject, form: Wanted) -> JsonObject:
    """The same in the version of meta.k8s.io that was asked for; they do not differ otherwise."""
    obj["apiVersion"] = f"meta.k8s.io/{form.version}"
    return obj


class _Shown:
    """A watch in which every object is shown in another form."""

    def __init__(self, form: Callable[[Kind, JsonObject], JsonObject]) -> None:
        self._form = form

    def line(self, kind: Kind, event: Event, as_type: EventType) -> bytes:
        obj = self._form(kind, shown(kind, event.entry))
        return encode({"type": as_type.name, "object": obj}) + b"\n"

    def bookmark(self, kind: Kind, obj: JsonObject) -> bytes:
        return encode({"type": "BOOKMARK", "object": self._form(kind, obj)}) + b"\n"


def _decoded(pieces: Iterator[bytes]) -> JsonObject:
    import msgspec

    return msgspec.json.decode(b"".join(pieces))


async def _pieces(beginning: list[bytes], rest: Iterator[bytes]) -> AsyncIterator[bytes]:
    while beginning:
        yield beginning.pop(0)
    for piece in rest:
        yield piece
        del piece  # gone before the next one is made
