"""The API over HTTP: an ASGI application.

Request bodies are read whole, up to a limit, unless they are for a pod behind a proxy; answers go
out whole or as they come, at the pace of the client. A watch ends when its client goes away, or
when the server stops; so does a session on a connection that was upgraded.
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    MutableMapping,
)
from typing import Any
from urllib.parse import parse_qsl

from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.api import Api, refusal
from kilonova.local.auth import Authenticator, User, impersonation, may_be_anonymous
from kilonova.local.errors import ApiError, too_large, unauthorized
from kilonova.local.responses import (
    PIECE_BYTES,
    ClientConnection,
    PendingWrite,
    PendingWrites,
    ResponseWriter,
    Send,
)
from kilonova.local.streaming import (
    Proxied,
    ProxyRequest,
    SocketWire,
    Upgrade,
    is_proxied,
    serve,
)
from kilonova.local.verbs import BODY_LIMIT

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

BODY_SECONDS = 60
BODY_PAUSE_SECONDS = 15
"""A body must come within the former, and no part of it later than the latter after the one
before."""

_NO_CONNECTION = ClientConnection()
_ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


class App:
    """Serves an `Api` to ASGI servers."""

    def __init__(self, api: Api, authenticator: Authenticator, pending: PendingWrites) -> None:
        self._api = api
        self._authenticator = authenticator
        self._pending = pending
        self._streams: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(f"{scope['type']} is not served")
        request = _request(scope)
        connection: ClientConnection = scope.get("state", {}).get("connection") or _NO_CONNECTION
        writer = ResponseWriter(send, connection, self._pending, path=request.path)
        try:
            user = self._user(request, scope)
            if isinstance(request, ProxyRequest):
                await self._relay(request, user, receive, send, writer)
                return
            request.body = await _body(receive)
        except ApiError as error:
            await _whole(_last(refusal(error)), send, writer)
            return
        except TimeoutError:
            await _whole(_last(refusal(_slow_body())), send, writer)
            return
        except _ClientGone:
            return
        answer = await self._api.handle(request, user)
        if isinstance(answer, Upgrade):
            await self._switch(answer, scope, request.path)
        elif isinstance(answer, StreamReply):
            await self._until(_copy(answer, send, writer), _disconnected(receive))
        else:
            await _whole(answer, send, writer)

    async def end_streams(self) -> None:
        """End every watch and session, so that clients know at once that the server stops."""
        streams = list(self._streams)
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)

    def _user(self, request: Request, scope: Scope) -> User:
        peer = scope.get("state", {}).get("peer") or None
        user = self._authenticator.authenticate(request.headers, peer)
        if user is not None:
            return user
        if may_be_anonymous(request.path):
            return _ANONYMOUS
        raise unauthorized()

    async def _switch(self, upgrade: Upgrade, scope: Scope, path: str) -> None:
        session = upgrade.session
        assert session is not None
        try:
            wire: SocketWire = scope["state"]["take_over"](upgrade.headers)
            wire.waiting = lambda size: self._pending.waiting(
                PendingWrite(wire.abort, path, not upgrade.paced), size
            )
            await self._until(serve(session, wire), wire.lost())
        except ConnectionResetError:
            return
        finally:
            await session.cleanup()

    async def _relay(
        self,
        request: ProxyRequest,
        user: User,
        receive: Receive,
        send: Send,
        writer: ResponseWriter,
    ) -> None:
        upload = _Upload(receive)
        request.chunks = upload.chunks()

        async def answer() -> None:
            reply = await self._api.handle(request, user)
            if isinstance(reply, StreamReply):
                await _copy(reply, send, writer)
            else:
                await _whole(reply, send, writer)

        await self._until(answer(), upload.run())

    async def _until(
        self, work: Coroutine[None, None, None], gone: Coroutine[None, None, None]
    ) -> None:
        """Work until it is done, its client has gone, or the server stops."""
        working, leaving = asyncio.create_task(work), asyncio.create_task(gone)
        self._streams.add(working)
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(working)
            leaving.cancel()
            working.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)


class _Upload:
    """The body of a request on its way to a pod: a little of it at a time."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue(1)

    async def run(self) -> None:
        """Take what comes, and return when the client has gone."""
        while (message := await self._receive())["type"] != "http.disconnect":
            if body := message.get("body", b""):
                await self._chunks.put(body)
            if not message.get("more_body"):
                await self._chunks.put(None)
                await _disconnected(self._receive)
                return

    async def chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            yield chunk


async def _copy(answer: StreamReply, send: Send, writer: ResponseWriter) -> None:
    if answer.paced or isinstance(answer, Proxied):
        writer.is_timed = False
    pairs = answer.pairs if isinstance(answer, Proxied) else answer.headers.items()
    start = {"type": "http.response.start", "status": answer.status, "headers": _encoded(pairs)}
    await send(start)
    # The headers go out with the first chunk; a watch of nothing must be seen to have begun.
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    # A watch may end anywhere; of a pod's answer, half must not be taken for the whole.
    is_whole = not isinstance(answer, Proxied)
    try:
        async for chunk in answer.chunks:
            await writer.write(chunk)
            del chunk  # while the next one is waited for, this one need not be there
        is_whole = True
    finally:
        close: Any = getattr(answer.chunks, "aclose", None)
        if close is not None:
            await close()
        if writer.connection.is_blocked():
            writer.connection.abort()  # the end would wait for the client as well
        elif is_whole:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _whole(reply: Reply, send: Send, writer: ResponseWriter) -> None:
    headers = _encoded(reply.headers.items())
    headers.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    body = reply.body
    if len(body) > PIECE_BYTES:
        await writer.write(body)
        body = b""
    await send({"type": "http.response.body", "body": body})


def _last(reply: Reply) -> Reply:
    """What is left of the request's body is not read, so its connection cannot be used again."""
    if reply.status in (413, 504):
        reply.headers["connection"] = "close"
    return reply


def _slow_body() -> ApiError:
    return ApiError(
        504, "Timeout", "Timeout: request did not complete within the allotted timeout", {}
    )


class _ClientGone(Exception):
    """The connection ended in the middle of a body: half a request asks for nothing."""


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    loop = asyncio.get_running_loop()
    end = loop.time() + BODY_SECONDS
    async with asyncio.timeout(BODY_PAUSE_SECONDS) as limit:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _ClientGone
            part: bytes = message.get("body", b"")
            size += len(part)
            if size > BODY_LIMIT:
                raise too_large(BODY_LIMIT)
            parts.append(part)
            if not message.get("more_body"):
                return parts[0] if len(parts) == 1 else b"".join(parts)
            limit.reschedule(min(end, loop.time() + BODY_PAUSE_SECONDS))


def _request(scope: Scope) -> Request:
    raw: bytes = scope["query_string"]
    query = raw.decode("latin-1")
    raw_path: bytes = scope["raw_path"]
    path = raw_path.decode("latin-1")
    parameters = parse_qsl(query, keep_blank_values=True) if query else []
    headers = _by_name(scope["headers"])
    if is_proxied(path):
        client = (scope.get("client") or ("",))[0]
        return ProxyRequest(
            scope["method"], path, parameters, headers, raw_query=query, client=client
        )
    return Request(scope["method"], path, parameters, headers)


def _by_name(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name; of one that was sent several times all values count."""
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    if len(found) < len(headers):
        several: dict[str, list[str]] = {}
        for name, value in headers:
            several.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        found = {name: ", ".join(values) for name, values in several.items()}
        found |= impersonation.joined(headers)
    return found


def _encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
