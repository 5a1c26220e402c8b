"""uvicorn inside a process that has its own event loop and minds its own signals."""

import asyncio
import contextlib
import socket
from collections.abc import Generator
from functools import partial
from typing import Any

import uvicorn

HANDSHAKE_SECONDS = 10.0
GOODBYE_SECONDS = 5.0


def listening(host: str, port: int, backlog: int) -> socket.socket:
    """A socket that listens; port 0 takes any that is free. OSError when it cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=backlog)


def why_not_had(error: OSError) -> str:
    """The system's words, without the address that `create_server` adds to them."""
    return (error.strerror or str(error)).partition(" (while")[0]


class HttpServer(uvicorn.Server):
    """A uvicorn server that leaves signals alone and tells when it accepts connections."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's on sockets that are given, with less patience for TLS."""
        await self.lifespan.startup()
        config = self.config
        limits: dict[str, Any] = {}
        if config.ssl is not None:
            limits["ssl_handshake_timeout"] = HANDSHAKE_SECONDS
            limits["ssl_shutdown_timeout"] = GOODBYE_SECONDS
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
