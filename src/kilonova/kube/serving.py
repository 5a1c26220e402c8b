"""uvicorn inside a process that has its own event loop and minds its own signals."""

import asyncio
import contextlib
import socket
from collections.abc import Generator

import uvicorn


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
