"""A small HTTP server: health checks, metrics, webhooks, the extender, the console.

The server is a `GracefulRunnable`: it runs until `stop`, which lets requests in flight finish.
Streams do not end by themselves: `stop` ends them at once, and so does a disconnect of the client.
"""

import socket
import ssl
from collections.abc import Mapping
from functools import partial

from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.serving.asgi import (
    BodyLimits,
    BodyTooLarge,
    ClientDisconnected,
    Receive,
    Scope,
    Send,
    decode_headers,
    decode_query,
    read_body,
    wait_for_disconnect,
)
from kilonova.kube.serving.http_server import HttpServer, ServerOptions, open_listener
from kilonova.kube.serving.open_streams import OpenStreams
from kilonova.kube.serving.response_writer import PendingWrites, ResponseWriter
from kilonova.kube.serving.routing import (
    ErrorReply,
    RequestHandler,
    Routes,
    find_handler,
    page_not_found,
    text_error,
)

_BODY_SECONDS = 30.0
_DRAIN_FACTOR = 8

log = get_logger(__name__)


class WebServer:
    """Serves `Routes`, over TLS if there is a TLS context.

    `headers` are added to every response, errors included, unless the response sets them.
    """

    def __init__(
        self,
        name: str,
        routes: Routes,
        *,
        host: str = "",
        port: int,
        tls: ssl.SSLContext | None = None,
        body_limit: int = 4 * 1024 * 1024,
        grace: int = 20,
        headers: Mapping[str, str] | None = None,
        error_reply: ErrorReply = text_error,
    ) -> None:
        self.name = name
        self._routes = dict(routes)
        self._address = (host, port)
        self._tls = tls
        self._body_limits = BodyLimits(
            size=body_limit,
            seconds=_BODY_SECONDS,
            idle_seconds=_BODY_SECONDS,
            drain_factor=_DRAIN_FACTOR,
        )
        self._options = ServerOptions(grace_seconds=grace)
        self._headers = dict(headers or {})
        self._error_reply = error_reply
        self._socket: socket.socket | None = None
        self._server: HttpServer | None = None
        self._is_stopping = False
        self._streams = OpenStreams()
        self._pending_writes = PendingWrites()

    def bind(self) -> int:
        """Open the port and return its number (0 picks a free one). OSError if it is in use."""
        if self._socket is None:
            self._socket = open_listener(*self._address, backlog=self._options.backlog)
        return self._socket.getsockname()[1]

    async def run(self) -> None:
        """Serve until `stop`, or until cancelled."""
        port = self.bind()
        assert self._socket is not None
        server = self._server = HttpServer(self._serve, self._socket, self._tls, self._options)
        if self._is_stopping:
            server.request_stop()
        log.info("serving", server=self.name, port=port, tls=self._tls is not None)
        try:
            await server.run()
        finally:
            self._socket = None

    def stop(self) -> None:
        """Accept no more connections, end streams, finish the requests in flight, then let `run`
        return."""
        self._is_stopping = True
        self._streams.cancel()
        if self._server is not None:
            self._server.request_stop()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        writer = ResponseWriter(send, scope["state"]["connection"], self._pending_writes, path)
        handler = find_handler(self._routes, path)
        if handler is None:
            await self._send(page_not_found(), receive, writer, path)
            return
        request = Request(
            scope["method"], path, decode_query(scope), decode_headers(scope["headers"])
        )
        limits = self._body_limits
        try:
            request.body = await read_body(request.headers, receive, limits)
        except BodyTooLarge:
            message = f"the request body is larger than {limits.size} bytes"
            await self._reject(413, message, writer)
        except TimeoutError:
            message = f"the request body did not arrive within {limits.seconds:.0f} s"
            await self._reject(408, message, writer)
        except ClientDisconnected:
            return
        else:
            request.wait_for_disconnect = partial(wait_for_disconnect, receive)
            await self._send(await self._handle(handler, request), receive, writer, path)

    async def _reject(self, status: int, message: str, writer: ResponseWriter) -> None:
        """Answer a request whose body has not been read to its end."""
        reply = self._error_reply(status, message)
        reply.headers = {**self._headers, **reply.headers}
        await writer.send_reply(reply, close_connection=True)

    async def _handle(self, handler: RequestHandler, request: Request) -> Reply | StreamReply:
        try:
            return await handler(request)
        except Exception:
            log.exception("request handler failed", server=self.name, path=request.path)
            return self._error_reply(500, "internal server error: see the server's log")

    async def _send(
        self, reply: Reply | StreamReply, receive: Receive, writer: ResponseWriter, path: str
    ) -> None:
        headers = {**self._headers, **reply.headers}
        if isinstance(reply, Reply):
            await writer.send_reply(Reply(reply.status, reply.body, headers))
            return
        stream = writer.send_stream(reply, headers.items())
        error = await self._streams.run(stream, wait_for_disconnect(receive))
        if error is not None:
            log.error("stream failed", server=self.name, path=path, error=repr(error))
