"""A transport that presents ConfigMaps as InferenceServices.

Reads of InferenceServices become reads of the ConfigMaps of services, writes of a status a write of
an annotation, and events about a service are about its ConfigMap; all other requests pass. Kinds of
other projects that the account may not read count as absent: their objects are extras.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.client.transport import Query, Reply, Request, StreamReply, Transport
from kilonova.serving.resources import CONFIG_MAPS, INFERENCE_SERVICES
from kilonova.serving.sources.config_maps import LABEL_SELECTOR
from kilonova.serving.sources.projection import (
    STATUS,
    merge_status,
    project_event,
    project_service,
    read_status,
)

_APPLY = "application/apply-patch+yaml"
_MERGE = "application/merge-patch+json"
_RETRIES = 4
_FINAL = "x-precondition"
"""Header of a conflict that another attempt does not resolve."""
_EXTRAS = ("/apis/monitoring.coreos.com/", "/apis/keda.sh/")
_FORBIDDEN, _NOT_FOUND, _CONFLICT, _METHOD_NOT_ALLOWED = 403, 404, 409, 405


@dataclass(frozen=True, slots=True)
class _Target:
    """What a request for InferenceServices is about."""

    name: str = ""
    subresource: str = ""


class ConfigMapTransport:
    """Over the transport to an API server, for the services of one namespace; with a name only for
    the service of that name. `prometheus` answers queries of services that name none."""

    def __init__(
        self, transport: Transport, namespace: str, name: str = "", prometheus: str = ""
    ) -> None:
        self._transport = transport
        self._namespace = namespace
        self._name = name
        self._prometheus = prometheus
        self._base = INFERENCE_SERVICES.path(namespace)
        self._events = f"/api/v1/namespaces/{namespace}/events"

    async def send(self, request: Request) -> Reply:
        """Send a request, translated if it is for InferenceServices."""
        target = self._find_target(request)
        if target is None:
            if request.method == "POST" and request.path == self._events:
                request.body = _translate_event(request.body)
            return _hide_extras(request, await self._transport.send(request))
        if request.method == "GET":
            return await self._read(request, target)
        if request.method == "PATCH" and target.subresource == "status":
            return await self._write_status(request, target)
        text = f"{request.method} of services is not possible: they are ConfigMaps here"
        return _build_failure(_METHOD_NOT_ALLOWED, "MethodNotAllowed", text)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[StreamReply]:
        """Stream a response, translated if it is a watch of InferenceServices."""
        target = self._find_target(request)
        translated = request if target is None else self._translate(request, target)
        async with self._transport.stream(translated) as reply:
            if target is not None and reply.status < 400:
                lines = _split_lines(reply.chunks)
                reply.chunks = _map_events(lines, self._project)
            elif _is_hidden(request, reply.status):
                reply.status = _NOT_FOUND
            yield reply

    async def close(self) -> None:
        """Close the transport below."""
        await self._transport.close()

    def _find_target(self, request: Request) -> _Target | None:
        path = request.path
        if path == self._base:
            return _Target()
        if not path.startswith(f"{self._base}/"):
            return None
        name, _, subresource = path.removeprefix(f"{self._base}/").partition("/")
        return _Target(name, subresource)

    def _translate(self, request: Request, target: _Target) -> Request:
        path = CONFIG_MAPS.path(self._namespace, target.name or None)
        query = request.query if target.name else self._select(request.query)
        return Request(request.method, path, query, dict(request.headers), request.body)

    def _select(self, query: Query) -> Query:
        selectors = {"labelSelector": LABEL_SELECTOR}
        if self._name:
            selectors["fieldSelector"] = f"metadata.name={self._name}"
        selected = [(key, value) for key, value in query if key not in selectors]
        for key, value in query:
            if key in selectors and value:
                selectors[key] = f"{selectors[key]},{value}"
        return [*selected, *selectors.items()]

    def _project(self, config_map: JsonObject) -> JsonObject:
        return project_service(config_map, self._prometheus)

    async def _read(self, request: Request, target: _Target) -> Reply:
        reply = await self._transport.send(self._translate(request, target))
        if reply.status >= 400:
            return reply
        body = cast(JsonObject, msgspec.json.decode(reply.body))
        if target.name:
            body = self._project(body)
        else:
            items = cast("list[JsonObject]", body.get("items") or ())
            body = {
                **body,
                "apiVersion": INFERENCE_SERVICES.api_version,
                "kind": f"{INFERENCE_SERVICES.kind}List",
                "items": [self._project(each) for each in items],
            }
        return Reply(reply.status, msgspec.json.encode(body), reply.headers)

    async def _write_status(self, request: Request, target: _Target) -> Reply:
        """Change the annotation; once more if the ConfigMap has changed meanwhile."""
        reply = await self._try_to_write_status(request, target)
        for _ in range(_RETRIES):
            if reply.status != _CONFLICT or reply.headers.get(_FINAL):
                break
            reply = await self._try_to_write_status(request, target)
        if reply.status >= 400:
            return reply
        written = self._project(cast(JsonObject, msgspec.json.decode(reply.body)))
        return Reply(reply.status, msgspec.json.encode(written), reply.headers)

    async def _try_to_write_status(self, request: Request, target: _Target) -> Reply:
        path = CONFIG_MAPS.path(self._namespace, target.name)
        reply = await self._transport.send(Request("GET", path, [], _build_headers(request)))
        if reply.status >= 400:
            return reply
        live = cast(JsonObject, msgspec.json.decode(reply.body))
        wanted = cast(JsonObject, msgspec.json.decode(request.body))
        failure = _check_preconditions(wanted.get("metadata") or {}, live["metadata"])
        if failure is not None:
            return failure
        status = merge_status(
            read_status(live),
            wanted.get("status") or {},
            is_apply=request.headers.get("content-type") == _APPLY,
        )
        return await self._transport.send(self._build_patch(request, target.name, live, status))

    def _build_patch(
        self, request: Request, name: str, live: JsonObject, status: JsonObject
    ) -> Request:
        metadata = live["metadata"]
        body: JsonObject = {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "annotations": {STATUS: msgspec.json.encode(status).decode()},
            }
        }
        query = [(key, value) for key, value in request.query if key != "force"]
        return Request(
            "PATCH",
            CONFIG_MAPS.path(self._namespace, name),
            query,
            {**_build_headers(request), "content-type": _MERGE},
            msgspec.json.encode(body),
        )


def _translate_event(body: bytes) -> bytes:
    return msgspec.json.encode(project_event(msgspec.json.decode(body, type=dict[str, Any])))


def _build_headers(request: Request) -> dict[str, str]:
    return {key: value for key, value in request.headers.items() if key != "content-type"}


def _check_preconditions(known: JsonObject, live: JsonObject) -> Reply | None:
    for field in ("uid", "resourceVersion"):
        if known.get(field) and known[field] != live.get(field):
            text = f"metadata.{field} is {live.get(field)}, not {known[field]}"
            reply = _build_failure(_CONFLICT, "Conflict", text)
            reply.headers[_FINAL] = field
            return reply
    return None


def _build_failure(code: int, reason: str, message: str) -> Reply:
    status = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    return Reply(code, msgspec.json.encode(status), {"content-type": "application/json"})


def _is_hidden(request: Request, status: int) -> bool:
    return status == _FORBIDDEN and request.path.startswith(_EXTRAS)


def _hide_extras(request: Request, reply: Reply) -> Reply:
    if _is_hidden(request, reply.status):
        return _build_failure(_NOT_FOUND, "NotFound", "the account may not read the kind")
    return reply


async def _split_lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Complete lines; the last one is dropped if it is incomplete, as watches drop it."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield line


async def _map_events(
    lines: AsyncIterator[bytes], project: Callable[[JsonObject], JsonObject]
) -> AsyncGenerator[bytes]:
    async for line in lines:
        event = cast(JsonObject, msgspec.json.decode(line))
        found = cast(JsonObject, event.get("object") or {})
        if event.get("type") in ("ADDED", "MODIFIED", "DELETED"):
            event["object"] = project(found)
        yield msgspec.json.encode(event) + b"\n"
