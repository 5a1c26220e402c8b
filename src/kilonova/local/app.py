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
from kilonova.local.auth import Authenticator, User, may_be_anonymous
from kilonova.local.errors import ApiError, too_large, unauthorized
from kilonova.local.verbs import BODY_LIMIT

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


class Connection(HttpToolsProtocol):
    """uvicorn's connection, which also tells the application who is at the other end."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None:
            self.app_state = {**self.app_state, "peer": tls.getpeercert()}


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
            request.body = await _body(receive)
        except ApiError as error:
            await _whole(refusal(error), send)
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


async def _body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return body
    parts = [body]
    size = len(body)
    while message.get("more_body"):
        message = await receive()
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > BODY_LIMIT:
            raise too_large(BODY_LIMIT)
        parts.append(part)
    return b"".join(parts)


def _request(scope: Scope) -> Request:
    query: bytes = scope["query_string"]
    raw_path: bytes = scope["raw_path"]
    return Request(
        scope["method"],
        raw_path.decode("latin-1"),
        parse_qsl(query.decode("latin-1"), keep_blank_values=True) if query else [],
        {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
    )


def _headers(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [
        (name.encode("latin-1"), value.encode("latin-1", "replace"))
        for name, value in headers.items()
    ]
