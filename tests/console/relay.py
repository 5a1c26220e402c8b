"""A way to a server that a test can cut: watches end, and a server seems to be gone."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from tests.harness.access import Access


@dataclass
class Relay:
    """Passes on what comes, both ways."""

    access: Access
    """How the server is reached through it."""
    leads_on: bool = True
    """Whether new connections are taken."""
    _open: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])

    def cut(self) -> None:
        """End all connections that there are."""
        for writer in self._open:
            writer.transport.abort()

    async def connect(
        self, server: Access, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if not self.leads_on:
            writer.transport.abort()
            return
        onward, back = await asyncio.open_connection(server.host, server.port)
        self._open |= {writer, back}
        await asyncio.gather(_carry(reader, back), _carry(onward, writer))
        self._open -= {writer, back}


@asynccontextmanager
async def relay_to(server: Access) -> AsyncGenerator[Relay]:
    """One from start to stop, on this machine."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay.connect(server, reader, writer)

    listening = await asyncio.start_server(take, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    relay = Relay(replace(server, url=f"https://{server.host}:{port}"))
    try:
        yield relay
    finally:
        listening.close()
        relay.cut()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while some := await reader.read(1 << 16):
            writer.write(some)
            await writer.drain()
    writer.close()
