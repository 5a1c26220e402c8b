"""A TCP relay to a server that a test can interrupt: watches end, and the server is unreachable."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from tests.harness.access import ServerAccess


@dataclass
class TcpRelay:
    """Forwards connections to a server."""

    access: ServerAccess
    """Access to the server through the relay."""
    accepts: bool = True
    """Whether new connections are accepted."""
    _open: set[asyncio.StreamWriter] = field(default_factory=set[asyncio.StreamWriter])

    def drop_connections(self) -> None:
        """Close all open connections."""
        for writer in self._open:
            writer.transport.abort()

    async def connect(
        self, server: ServerAccess, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if not self.accepts:
            writer.transport.abort()
            return
        server_reader, server_writer = await asyncio.open_connection(server.host, server.port)
        self._open |= {writer, server_writer}
        await asyncio.gather(
            _copy_stream(reader, server_writer), _copy_stream(server_reader, writer)
        )
        self._open -= {writer, server_writer}


@asynccontextmanager
async def open_relay(server: ServerAccess) -> AsyncGenerator[TcpRelay]:
    """A running relay on loopback."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay.connect(server, reader, writer)

    listening = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    relay = TcpRelay(replace(server, url=f"https://{server.host}:{port}"))
    try:
        yield relay
    finally:
        listening.close()
        relay.drop_connections()


async def _copy_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(1 << 16):
            writer.write(chunk)
            await writer.drain()
    writer.close()
