"""A small HTTP server for what a process serves beside its work: health, metrics, webhooks.

Endpoints are functions from `Request` to `Reply`, the types of `kilonova.kube.transport`, or to
`StreamReply` for an answer that goes on. uvicorn carries them, in the event loop of the caller. It
is a part of the process like any other: `run` until `stop`, which lets requests under way finish.
Streams have no end of their own: they are ended by `stop` at once, and when the client is gone.
"""

import asyncio
import socket
import ssl
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Mapping,
    MutableMapping,
)
from typing import Any
from urllib.parse import parse_qsl

import uvicorn

from kilonova.kube.connection import BoundedConnection
from kilonova.kube.logging import get_logger
from kilonova.kube.serving import HttpServer, listening
from kilonova.kube.transport import Reply, Request, StreamReply

Endpoint = Callable[[Request], Awaitable[Reply | StreamReply]]
"""Answers one request. What it raises is answered with 500 and logged."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_BODY_SECONDS = 30.0
# Longer than Go's clients keep an idle connection (90 s): they close first, and never send a
# request on a connection that the server is closing.
_KEEP_ALIVE_SECONDS = 120

# A client reads no answer before it has sent all: a body somewhat too large is read to its end.
_DRAINED = 8

log = get_logger(__name__)


def text(status: int, content: str, content_type: str = "text/plain; charset=utf-8") -> Reply:
    """An answer for people."""
    headers = {"content-type": content_type, "x-content-type-options": "nosniff"}
    return Reply(status, content.encode(), headers)


class WebServer:
    """Serves endpoints by path, over TLS if there is a context for it.

    A path that ends with `/` stands for what is directly below it, and `/` itself for all that no
    other stands for. The context may be given a new certificate at any time: connections that exist
    keep theirs, later ones get the new one. `headers` are in every answer, its own refusals
    included, that does not say otherwise.
    """

    def __init__(
        self,
        name: str,
        endpoints: Mapping[str, Endpoint],
        *,
        host: str = "",
        port: int,
        tls: ssl.SSLContext | None = None,
        body_limit: int = 4 * 1024 * 1024,
        grace: int = 20,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._endpoints = dict(endpoints)
        self._address = (host, port)
        self._tls = tls
        self._body_limit = body_limit
        self._grace = grace
        self._headers = dict(headers or {})
        self._socket: socket.socket | None = None
        self._server: HttpServer | None = None
        self._stopping = False
        self._streams: set[asyncio.Task[None]] = set()

    def bind(self) -> int:
        """Take the port now, and say which (0 picks a free one). OSError when it is taken."""
        if self._socket is None:
            self._socket = listening(*self._address, backlog=1024)
        return self._socket.getsockname()[1]

    async def run(self) -> None:
        """Serve until `stop`, or until cancelled."""
        port = self.bind()
        assert self._socket is not None
        tls = self._tls
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            proxy_headers=False,
            loop="none",
            http=BoundedConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=self._grace,
            ssl_context_factory=_given(tls) if tls else None,
        )
        server = self._server = HttpServer(config)
        server.should_exit = self._stopping
        log.info("serving", server=self.name, port=port, tls=tls is not None)
        try:
            await server.serve(sockets=[self._socket])
        except asyncio.CancelledError:
            if server.started:
                await server.shutdown(sockets=[self._socket])
            raise
        finally:
            self._socket.close()
            self._socket = None

    def stop(self) -> None:
        """Take no more connections, end streams, finish the requests under way, then let `run`
        return."""
        self._stopping = True
        for stream in self._streams:
            stream.cancel()
        if self._server is not None:
            self._server.should_exit = True

    async def _app(self, scope: Message, receive: Receive, send: Send) -> None:
        reply = await self._answer(scope, receive)
        whole = {**self._headers, **reply.headers}
        headers = [(name.encode(), value.encode()) for name, value in whole.items()]
        start: Message = {"type": "http.response.start", "status": reply.status, "headers": headers}
        if isinstance(reply, StreamReply):
            await send(start)
            await self._send_stream(scope["path"], reply.chunks, receive, send)
            return
        headers.append((b"content-length", str(len(reply.body)).encode()))
        if reply.status in (408, 413):
            # What is left of the body is not read, so the connection cannot be used again.
            headers.append((b"connection", b"close"))
        await send(start)
        body = b"" if scope["method"] == "HEAD" else reply.body
        await send({"type": "http.response.body", "body": body})

    async def _send_stream(
        self, path: str, chunks: AsyncIterator[bytes], receive: Receive, send: Send
    ) -> None:
        pump = asyncio.ensure_future(_pump(chunks, send))
        gone = asyncio.ensure_future(_until_gone(receive))
        self._streams.add(pump)
        if self._stopping:
            pump.cancel()
        try:
            await asyncio.wait((pump, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.discard(pump)
            left = gone.done()
            pump.cancel()
            gone.cancel()
            await asyncio.wait((pump, gone))
        error = None if pump.cancelled() else pump.exception()
        if error is not None:
            # Without its last chunk the client sees that the answer is not complete.
            log.error("stream failed", server=self.name, path=path, error=repr(error))
        elif not left:
            await send({"type": "http.response.body", "body": b""})

    async def _answer(self, scope: Message, receive: Receive) -> Reply | StreamReply:
        path: str = scope["path"]
        places = (path, path.rpartition("/")[0] + "/", "/")
        endpoint = next((self._endpoints[each] for each in places if each in self._endpoints), None)
        if endpoint is None:
            return text(404, "404 page not found\n")
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await self._read_body(receive)
        except TimeoutError:
            return text(408, f"the request body did not arrive within {_BODY_SECONDS:.0f} s\n")
        except _TooLarge:
            return text(413, f"the request body is larger than {self._body_limit} bytes\n")
        query = parse_qsl(scope["query_string"].decode(), keep_blank_values=True)
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        try:
            return await endpoint(Request(scope["method"], path, query, headers, body))
        except Exception:
            log.exception("endpoint failed", server=self.name, path=path)
            return text(500, "internal server error\n")

    async def _read_body(self, receive: Receive) -> bytes:
        chunks: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                break
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            more = message.get("more_body", False)
            if size <= self._body_limit:
                chunks.append(chunk)
            elif size > _DRAINED * self._body_limit or not more:
                raise _TooLarge
        return b"".join(chunks)


class _TooLarge(Exception):
    pass


async def _pump(chunks: AsyncIterator[bytes], send: Send) -> None:
    """Send chunks as they come, none before the one before it has left."""
    try:
        async for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _given(context: ssl.SSLContext) -> Callable[[uvicorn.Config, Any], ssl.SSLContext]:
    return lambda _config, _default: context
