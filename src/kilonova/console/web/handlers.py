"""Routes of the console's HTTP server."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.component.console import Table
from kilonova.console.description import Assembly
from kilonova.console.feeds.viewers import Viewers
from kilonova.console.history.rings import HistoryQuery
from kilonova.console.history.sampler import SeriesSampler
from kilonova.console.objects import PODS
from kilonova.console.rows.pods import pod_row
from kilonova.console.static_files import (
    INDEX,
    PagePaths,
    StaticFile,
    embed_description,
    read_files,
)
from kilonova.console.web.actions import ActionBody, ActionPerformer
from kilonova.console.web.pod_logs import parse_log_query, stream_log
from kilonova.console.web.responses import (
    RequestRejected,
    error_reply,
    json_reply,
    unauthorized_page,
)
from kilonova.console.web.token_auth import TokenAuthenticator
from kilonova.kube import (
    ApiStatusError,
    Client,
    Key,
    KubeError,
    Reply,
    Request,
    StreamReply,
    Unauthorized,
)
from kilonova.kube.serving.routing import (
    RequestHandler,
    page_not_found,
    require_method,
    text_error,
    text_reply,
)

_READ_METHODS = ("GET", "HEAD")
_STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    # Asks reverse proxies (an ingress) not to buffer events.
    "x-accel-buffering": "no",
}

_POD_TABLE = Table("pods", PODS, pod_row)

_require = partial(require_method, error_reply=error_reply)


@dataclass(frozen=True, slots=True)
class Explained:
    """Why a gang or pod is placed or pending: as text, and as data."""

    text: str
    answer: object


Explain = Callable[[str, str], Awaitable[Explained | None]]
"""Explains the placement of a pod or gang (namespace, name); None if there is no such object."""


@dataclass(frozen=True, slots=True)
class DataSources:
    """Where the data of the page comes from, besides the API server."""

    viewers: Viewers
    history: SeriesSampler
    explain: Explain | None


class ConsoleHandlers:
    """Handlers of all routes."""

    def __init__(
        self,
        client: Client,
        authenticator: TokenAuthenticator,
        assembly: Assembly,
        sources: DataSources,
        *,
        allow_actions: bool,
    ) -> None:
        self._client = client
        self._authenticator = authenticator
        self._files: Mapping[str, StaticFile] = embed_description(read_files(), assembly.describe())
        self._page_paths = PagePaths(assembly.pages)
        self._sources = sources
        self._tables = {table.name: table for table in assembly.tables}
        self._actions = ActionPerformer(client, self._tables, assembly.actions)
        self._allow_actions = allow_actions

    def routes(self) -> dict[str, RequestHandler]:
        """Handlers by path."""
        return {
            "/healthz": self._healthz,
            "/api/stream": self._authenticated(_require("GET", self._stream_rows)),
            "/api/why": self._authenticated(_require("GET", self._get_explanation)),
            "/api/object": self._authenticated(_require("GET", self._get_object)),
            "/api/logs": self._authenticated(_require("GET", self._stream_logs)),
            "/api/series": self._authenticated(_require("GET", self._get_series)),
            "/api/actions": self._authenticated(_require("POST", self._perform_action)),
            "/api/": self._authenticated(self._not_found),
            "/": self._serve_page,
        }

    def _authenticated(self, handler: RequestHandler) -> RequestHandler:
        """Wraps a handler: checks the token, and turns errors into messages."""

        async def handle(request: Request) -> Reply | StreamReply:
            if not self._authenticator.is_authenticated(request):
                return error_reply(
                    401, "invalid or missing token: open the link that `kilonova status` prints"
                )
            try:
                return await handler(request)
            except RequestRejected as rejection:
                return error_reply(rejection.status, rejection.message)
            except Unauthorized as error:
                # The console's own credentials were rejected, not the viewer's.
                return error_reply(
                    502, f"the API server rejected the console's credentials: {error}"
                )
            except ApiStatusError as error:
                return error_reply(error.code, error.message)
            except KubeError as error:
                return error_reply(502, f"the API server is unreachable: {error}")

        return handle

    async def _healthz(self, _: Request) -> Reply | StreamReply:
        return text_reply(200, "ok")

    async def _serve_page(self, request: Request) -> Reply | StreamReply:
        if request.method not in _READ_METHODS:
            return error_reply(405, f"method not allowed: use GET {request.path}")
        file = None if request.path == INDEX else self._files.get(request.path)
        if file is not None:
            return file.reply(request)
        if request.path.startswith("/assets/"):
            return page_not_found()
        redirect = self._authenticator.login_redirect(request)
        if redirect is not None:
            return redirect
        if not self._authenticator.is_authenticated(request):
            return unauthorized_page()
        index = self._files.get(INDEX)
        if index is None:
            return text_error(503, "the files of the page are missing in this installation")
        return index.reply(request) if request.path in self._page_paths else index.reply_not_found()

    async def _stream_rows(self, _: Request) -> StreamReply:
        return StreamReply(
            200, self._sources.viewers.stream(), dict(_STREAM_HEADERS), waits_for_client=True
        )

    async def _get_explanation(self, request: Request) -> Reply:
        namespace, name = _required_param(request, "namespace"), _required_param(request, "name")
        explain = self._sources.explain
        if explain is None:
            raise RequestRejected(404, "this console has no scheduler to explain placements")
        found = await explain(namespace, name)
        if found is None:
            raise RequestRejected(
                404,
                f"no pod or gang {name!r} in namespace {namespace} is bound or waiting for "
                "kilonova-scheduler",
            )
        return json_reply(found)

    async def _get_object(self, request: Request) -> Reply:
        table = self._tables.get(_required_param(request, "table"))
        if table is None:
            raise RequestRejected(400, f"unknown table: want one of {', '.join(self._tables)}")
        namespace, name = _object_key(table, request)
        json_object: type[JsonObject] = dict
        found = await self._client.get(table.resource.as_type(json_object), name, namespace)
        found["metadata"].pop("managedFields", None)
        return json_reply(found)

    async def _stream_logs(self, request: Request) -> StreamReply:
        namespace, pod = _object_key(_POD_TABLE, request)
        return await stream_log(self._client, pod, namespace, parse_log_query(request))

    async def _get_series(self, request: Request) -> Reply:
        names = [value for name, value in request.query if name == "name"]
        step = request.query_param("step") or ""
        key, by_key = request.query_param("key") or "", request.query_param("by-key") or ""
        if not (names or by_key) or not step.isdecimal():
            raise RequestRejected(400, f"{request.path}: want name=SERIES and step=SECONDS")
        try:
            query = HistoryQuery(int(step), names, key, by_key)
            return json_reply(self._sources.history.history(query))
        except ValueError as error:
            raise RequestRejected(400, str(error)) from error

    async def _perform_action(self, request: Request) -> Reply:
        _require_same_origin(request)
        if not self._allow_actions:
            raise RequestRejected(403, "the console is read-only: start it with --allow-actions")
        try:
            action = msgspec.json.decode(request.body, type=ActionBody)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise RequestRejected(400, f"invalid action: {error}") from error
        return json_reply({"message": await self._actions.perform(action)})

    async def _not_found(self, request: Request) -> Reply:
        raise RequestRejected(404, f"{request.path} not found")


def _object_key(table: Table[Any], request: Request) -> Key:
    try:
        return table.key_of(_required_param(request, "id"))
    except ValueError as error:
        raise RequestRejected(400, str(error)) from error


def _required_param(request: Request, name: str) -> str:
    value = request.query_param(name)
    if not value:
        raise RequestRejected(400, f"{request.path}: query parameter {name} is required")
    return value


def _require_same_origin(request: Request) -> None:
    """Reject requests that another site's page may have sent (cross-site request forgery)."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise RequestRejected(415, "actions require content-type: application/json")
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        raise RequestRejected(403, "actions are accepted from the console's own page only")
