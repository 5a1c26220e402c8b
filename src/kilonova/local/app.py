"""The API over HTTP: an ASGI application, and the connection that knows its peer's certificate.

Request bodies are read whole, up to a limit; answers go out whole or as they come. A watch
ends when its client goes away, or when the server stops.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.api import Api, refusal
from kilonova.local.auth import Authenticator, User, impersonation, may_be_anonymous
from kilonova.local.errors import ApiError, too_large, unauthorized
from kilonova.local.verbs import BODY_LIMIT

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

HEAD_SECONDS = 32
HEAD_LIMIT = 1 << 20
BODY_SECONDS = 60

_HEAD_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)

_ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


class Connection(HttpToolsProtocol):
    """uvicorn's connection, which also tells the application who is at the other end.

    Whoever it is gets only so much time and room for the head of a request, as in Kubernetes:
    uvicorn itself would wait and gather without end.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self.app_state = {**self.app_state, "peer": tls.getpeercert()}
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_timer is not None:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT:
                self._end_head()
                self.transport.write(_HEAD_TOO_LARGE)
                self.transport.close()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        if self._head_timer is None:
            self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        self.transport.close()


class App:
    """Serves an `Api` to ASGI servers."""

    def __init__(self, api: Api, authenticator: Authenticator) -> None:
        self._api = api
        self._authenticator = authenticator
        self._streams: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(f"{scope['type']} is not served")
        request = _request(scope)
        try:
            user = self._user(request, scope)
            async with asyncio.timeout(BODY_SECONDS):
                request.body = await _body(receive)
        except ApiError as error:
            await _whole(refusal(error), send)
            return
        except TimeoutError:
            await _whole(refusal(_slow_body()), send)
            return
        except _ClientGone:
            return
        answer = await self._api.handle(request, user)
        if isinstance(answer, StreamReply):
            await self._stream(answer, receive, send)
        else:
            await _whole(answer, send)

    async def end_streams(self) -> None:
        """End every watch, so that clients know at once that the server stops."""
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

    async def _stream(self, answer: StreamReply, receive: Receive, send: Send) -> None:
        copying = asyncio.create_task(_copy(answer, send))
        self._streams.add(copying)
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait((copying, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(copying)
            gone.cancel()
            copying.cancel()
            await asyncio.gather(copying, gone, return_exceptions=True)


async def _copy(answer: StreamReply, send: Send) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": _headers(answer.headers),
        }
    )
    # The headers go out with the first chunk; a watch of nothing must be seen to have begun.
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    try:
        async for chunk in answer.chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    finally:
        close: Any = getattr(answer.chunks, "aclose", None)
        if close is not None:
            await close()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _whole(reply: Reply, send: Send) -> None:
    headers = _headers(reply.headers)
    headers.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def _slow_body() -> ApiError:
    return ApiError(
        504, "Timeout", "Timeout: request did not complete within the allotted timeout", {}
    )


class _ClientGone(Exception):
    """The connection ended in the middle of a body: half a request asks for nothing."""


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
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


def _request(scope: Scope) -> Request:
    query: bytes = scope["query_string"]
    raw_path: bytes = scope["raw_path"]
    return Request(
        scope["method"],
        raw_path.decode("latin-1"),
        parse_qsl(query.decode("latin-1"), keep_blank_values=True) if query else [],
        _by_name(scope["headers"]),
    )


def _by_name(headers: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name; of one that was sent several times all values count where they may."""
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    if len(found) < len(headers) and any(name.startswith(impersonation.PREFIX) for name in found):
        found |= impersonation.joined(headers)
    return found


def _headers(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in headers.items()
    ]
