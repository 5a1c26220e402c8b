"""Forwards TCP connections from a service listener to a backend.

Each connection is two tasks, one per direction. A task reads no faster than the other side accepts,
and forwards the end of a stream, so that half-closed connections work. If either side resets the
connection, so is the other.
"""

import asyncio
import socket
import struct
from contextlib import suppress

from kilonova.local.processnode.network.routes import ServiceRoute

_CHUNK_SIZE = 65536
_CONNECT_SECONDS = 10.0
_LINGER_ZERO = struct.pack("@ii", 1, 0)


class ServiceForwarder:
    """Listens until it is closed; accepted connections go on."""

    def __init__(self, route: ServiceRoute) -> None:
        self.route = route
        """The route of new connections; may be replaced."""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def listen(self, host: str, port: int) -> None:
        """Listen; OSError if that is impossible."""
        self._server = await asyncio.start_server(self._accept, host, port)

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    def abort(self) -> None:
        """Stop listening, and reset all connections."""
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
            pass  # by `abort`: the connection is closed, and nothing awaits this task
        finally:
            self._connections.discard(task)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = writer.get_extra_info("peername")
        backend = self.route.select_backend(client[0]) if client else None
        try:
            if backend is None:
                return
            with suppress(OSError):  # includes TimeoutError
                async with asyncio.timeout(_CONNECT_SECONDS):
                    back_reader, back_writer = await asyncio.open_connection(*backend)
                try:
                    await _pump_both((reader, back_writer), (back_reader, writer))
                finally:
                    _reset_connection(back_writer)
        finally:
            _reset_connection(writer)


_StreamPair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _pump_both(there: _StreamPair, back: _StreamPair) -> None:
    """Copy until both directions have ended; OSError if one fails."""
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
    while piece := await reader.read(_CHUNK_SIZE):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def _reset_connection(writer: asyncio.StreamWriter) -> None:
    """Reset a connection that has not ended by itself, so that the peer notices."""
    transport = writer.transport
    if not transport.is_closing():
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO
        )
    transport.abort()
