"""The requests that the console answers, by path."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.console.actions import Action, perform
from kilonova.console.files import INDEX, File, is_page
from kilonova.console.gate import Gate
from kilonova.console.logs import read_query, stream_log
from kilonova.console.objects import PODS
from kilonova.console.podrows import pod_row
from kilonova.console.replies import Refused, as_json, message, refusal_page
from kilonova.console.tables import Table
from kilonova.console.viewers import Viewers
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
from kilonova.kube.logging import get_logger
from kilonova.kube.webserver import Endpoint, text

_READ = ("GET", "HEAD")
_STREAM = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    # What stands before us (an ingress) passes every event on as it comes.
    "x-accel-buffering": "no",
}

_POD_TABLE = Table("pods", PODS, pod_row)

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Explained:
    """Why something waits: for people, and the same for programs."""

    text: str
    answer: object


Explain = Callable[[str, str], Awaitable[Explained | None]]
"""Why the pod or gang of a (namespace, name) has its place or none; None if it is not known."""


class Doors:
    """Every door of the console."""

    def __init__(
        self,
        client: Client,
        gate: Gate,
        files: Mapping[str, File],
        viewers: Viewers,
        tables: Iterable[Table[Any]],
        explain: Explain | None,
        *,
        allow_actions: bool,
    ) -> None:
        self._client = client
        self._gate = gate
        self._files = files
        self._viewers = viewers
        self._tables = {table.name: table for table in tables}
        self._explain = explain
        self._allow_actions = allow_actions

    def endpoints(self) -> dict[str, Endpoint]:
        """What to serve."""
        doors: dict[str, Endpoint] = {
            "/healthz": self._healthz,
            "/api/stream": self._guarded("GET", self._stream),
            "/api/why": self._guarded("GET", self._why),
            "/api/object": self._guarded("GET", self._object),
            "/api/logs": self._guarded("GET", self._logs),
            "/api/actions": self._guarded("POST", self._act),
            "/api/": self._guarded("", self._unknown),
            "/": self._page,
        }
        return {path: _answering(door) for path, door in doors.items()}

    def _guarded(self, method: str, endpoint: Endpoint) -> Endpoint:
        """Answers only who has the token, and every failure in words."""

        async def answer(request: Request) -> Reply | StreamReply:
            if not self._gate.admits(request):
                return message("no right token: open the link that `kilonova status` prints", 401)
            if method and request.method != method:
                refused = message(f"{request.path} takes {method} only", 405)
                refused.headers["allow"] = method
                return refused
            try:
                return await endpoint(request)
            except Refused as refusal:
                return message(refusal.message, refusal.status)
            except Unauthorized as error:
                # It is the console that the cluster does not know, not who looks at it.
                return message(f"the cluster refuses the console: {error}", 502)
            except ApiStatusError as error:
                return message(error.message, error.code)
            except KubeError as error:
                return message(f"the cluster does not answer: {error}", 502)

        return answer

    async def _healthz(self, _: Request) -> Reply | StreamReply:
        return text(200, "ok")

    async def _page(self, request: Request) -> Reply | StreamReply:
        if request.method not in _READ:
            return message(f"{request.path} takes GET only", 405)
        file = None if request.path == INDEX else self._files.get(request.path)
        if file is not None:
            return file.reply(request)
        if request.path.startswith("/assets/"):
            return text(404, "404 page not found\n")
        entrance = self._gate.entrance(request)
        if entrance is not None:
            return entrance
        if not self._gate.admits(request):
            return refusal_page()
        index = self._files.get(INDEX)
        if index is None:
            return text(503, "this installation has no page: its files are missing\n")
        return index.reply(request) if is_page(request.path) else index.reply_not_found()

    async def _stream(self, _: Request) -> StreamReply:
        return StreamReply(200, self._viewers.stream(), dict(_STREAM))

    async def _why(self, request: Request) -> Reply:
        namespace, name = _asked(request, "namespace"), _asked(request, "name")
        if self._explain is None:
            raise Refused(404, "this console does not know how pods are placed")
        found = await self._explain(namespace, name)
        if found is None:
            raise Refused(
                404,
                f"no pod or gang {name!r} in namespace {namespace} has a node or waits for "
                "kilonova-scheduler",
            )
        return as_json(found)

    async def _object(self, request: Request) -> Reply:
        table = self._tables.get(_asked(request, "table"))
        if table is None:
            raise Refused(400, f"there is no such table: there are {', '.join(self._tables)}")
        namespace, name = _key(table, request)
        whole: type[JsonObject] = dict
        found = await self._client.get(table.resource.as_type(whole), name, namespace)
        found["metadata"].pop("managedFields", None)
        return as_json(found)

    async def _logs(self, request: Request) -> StreamReply:
        namespace, pod = _key(_POD_TABLE, request)
        return await stream_log(self._client, pod, namespace, read_query(request))

    async def _act(self, request: Request) -> Reply:
        _require_own_page(request)
        if not self._allow_actions:
            raise Refused(403, "the console is read-only: start it with --allow-actions")
        try:
            action = msgspec.json.decode(request.body, type=Action)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise Refused(400, f"no action: {error}") from error
        return message(await perform(self._client, self._tables, action))

    async def _unknown(self, request: Request) -> Reply:
        raise Refused(404, f"there is no {request.path}")


def _answering(door: Endpoint) -> Endpoint:
    """Answers for a door that failed, in words."""

    async def answer(request: Request) -> Reply | StreamReply:
        try:
            return await door(request)
        except Exception:
            log.exception("door failed", path=request.path)
            return message("the console failed: its log says how", 500)

    return answer


def _key(table: Table[Any], request: Request) -> Key:
    try:
        return table.key_of(_asked(request, "id"))
    except ValueError as error:
        raise Refused(400, str(error)) from error


def _asked(request: Request, name: str) -> str:
    value = request.param(name)
    if not value:
        raise Refused(400, f"{request.path} wants {name}=")
    return value


def _require_own_page(request: Request) -> None:
    """Refuse what another site's page may have sent in the name of whoever looks at it."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        raise Refused(415, "an action is sent with content-type: application/json")
    origin, host = request.headers.get("origin"), request.headers.get("host", "")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        raise Refused(403, "actions are taken from the console's own page only")
