"""uvicorn inside a process that has its own event loop and signal handlers.

Every HTTP server of Kilonova is an `HttpServer`: it owns the socket, TLS, the connections' limits
(`BoundedConnection`) and the graceful stop. The application is ASGI: `WebServer`, or the embedded
API server.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from kilonova.kube.serving.asgi import AsgiApplication
from kilonova.kube.serving.bounded_connection import BoundedConnection

TLS_HANDSHAKE_SECONDS = 10.0
TLS_SHUTDOWN_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What differs between servers."""

    connection: type[BoundedConnection] = BoundedConnection
    # Longer than Go's clients keep an idle connection (90 s): they close first, and never send a
    # request on a connection that the server is closing.
    keep_alive_seconds: int = 120
    grace_seconds: int = 20
    """Requests in flight may take this long after the stop; then their connections are closed."""
    backlog: int = 1024
    date_header: bool = True


def create_tls_context(
    client_ca: Path | None = None, client_certificate: ssl.VerifyMode = ssl.CERT_REQUIRED
) -> ssl.SSLContext:
    """A TLS context for a server, without a certificate yet.

    With `client_ca`, a file of CA certificates, only clients with a certificate signed by one of
    them are accepted; and with CERT_OPTIONAL, clients without any.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if client_ca is not None:
        context.verify_mode = client_certificate
        context.load_verify_locations(client_ca)
    return context


def open_listener(host: str, port: int, backlog: int) -> socket.socket:
    """Open a listening socket; port 0 takes a free one. OSError if the port is not available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=backlog)


def format_bind_error(error: OSError) -> str:
    """The system's error text, without the address that `create_server` adds to it."""
    return (error.strerror or str(error)).partition(" (while")[0]


class HttpServer:
    """Serves an application on a listening socket: with `run`, until `request_stop`; or from
    `start` until `stop`. The socket is closed at the end.

    The TLS context may receive a new certificate at any time: existing connections keep theirs,
    later ones use the new one.
    """

    def __init__(
        self,
        application: AsgiApplication,
        listener: socket.socket,
        tls: ssl.SSLContext | None,
        options: ServerOptions,
    ) -> None:
        self._listener = listener
        self._task: asyncio.Task[None] | None = None
        self._server = _UvicornServer(
            uvicorn.Config(
                application,
                interface="asgi3",
                http=options.connection,
                ws="none",
                lifespan="off",
                loop="none",
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                date_header=options.date_header,
                proxy_headers=False,
                timeout_keep_alive=options.keep_alive_seconds,
                timeout_graceful_shutdown=options.grace_seconds,
                backlog=options.backlog,
                ssl_context_factory=None if tls is None else lambda _config, _default: tls,
            )
        )

    async def run(self) -> None:
        """Serve until `request_stop`, or until cancelled."""
        server = self._server
        try:
            await server.serve([self._listener])
        except asyncio.CancelledError:
            if server.started:
                await server.shutdown([self._listener])
            raise
        finally:
            self._listener.close()

    def request_stop(self) -> None:
        """Accept no more connections, finish the requests in flight, then let `run` return."""
        self._server.should_exit = True

    async def start(self) -> None:
        """Serve in a task; return when connections are accepted."""
        self._task = asyncio.create_task(self.run(), name="http-server")
        listening = asyncio.create_task(self._server.listening.wait())
        try:
            await asyncio.wait((listening, self._task), return_when=asyncio.FIRST_COMPLETED)
        finally:
            listening.cancel()
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """End what `start` began, and wait for it."""
        if self._task is not None:
            self.request_stop()
            await self._task


class _UvicornServer(uvicorn.Server):
    """A uvicorn server that does not handle signals and reports when it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's on given sockets, with a shorter TLS handshake timeout."""
        await self.lifespan.startup()
        config = self.config
        limits: dict[str, Any] = {}
        if config.ssl is not None:
            limits["ssl_handshake_timeout"] = TLS_HANDSHAKE_SECONDS
            limits["ssl_shutdown_timeout"] = TLS_SHUTDOWN_SECONDS
        protocol: Any = partial(
            config.http_protocol_class,
            config=config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        loop = asyncio.get_running_loop()
        self.servers = [
            await loop.create_server(
                protocol, sock=each, ssl=config.ssl, backlog=config.backlog, **limits
            )
            for each in sockets or ()
        ]
        self.started = True
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
