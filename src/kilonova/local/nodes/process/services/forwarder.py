"""A door: a TCP port of this machine behind which a Service is.

Each connection is two pumps, one for each direction. A pump reads no faster than the other side
takes, and passes the end of a stream on, so that half-closed connections work. If either side
breaks off, so does the other.
"""

import asyncio
import socket
import struct
from contextlib import suppress

from kilonova.local.nodes.process.network.routes import Route

_PIECE = 65536
_CONNECT_SECONDS = 10.0
_WITHOUT_LINGERING = struct.pack("@ii", 1, 0)


class OpenDoor:
    """Listens until it is closed; connections that were accepted go on."""

    def __init__(self, route: Route) -> None:
        self.route = route
        """Where new connections go; may be replaced."""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> None:
        """Listen; OSError if that cannot be."""
        self._server = await asyncio.start_server(self._accept, host, port)

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    def abort(self) -> None:
        """Listen no more, and end all connections."""
        self.close()
        for connection in self._connections:
            connection.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._forward(reader, writer)
        except asyncio.CancelledError:
            pass  # by `abort`: the connection is over, and nobody waits for this task
        finally:
            self._connections.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = writer.get_extra_info("peername")
        backend = self.route.backend(client[0]) if client else None
        try:
            if backend is None:
                return
            with suppress(OSError):  # and TimeoutError, which is one
                async with asyncio.timeout(_CONNECT_SECONDS):
                    back_reader, back_writer = await asyncio.open_connection(*backend)
                try:
                    await _pump_both((reader, back_writer), (back_reader, writer))
                finally:
                    _break_off(back_writer)
        finally:
            _break_off(writer)


_Way = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _pump_both(there: _Way, back: _Way) -> None:
    """Until both directions have ended; OSError if one breaks."""
    try:
        async with asyncio.TaskGroup() as pumps:
            pumps.create_task(_pump(*there))
            pumps.create_task(_pump(*back))
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    for writer in (there[1], back[1]):
        writer.close()
        await writer.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def _break_off(writer: asyncio.StreamWriter) -> None:
    """Reset a connection that has not ended by itself, so that the other side knows."""
    transport = writer.transport
    if not transport.is_closing():
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _WITHOUT_LINGERING
        )
    transport.abort()
