"""uvicorn inside a process that has its own event loop and minds its own signals."""

import asyncio
import contextlib
import socket
from collections.abc import Generator

import uvicorn


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
        await super().startup(sockets=sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
