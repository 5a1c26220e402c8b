"""A wire: bytes both ways, with the pace of the slower side."""

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

READ_BYTES = 64 << 10
_FLUSH_SECONDS = 5.0


class ProtocolError(Exception):
    """The other side does not speak the protocol that was agreed on."""


class Wire(Protocol):
    """Bytes both ways."""

    async def read(self) -> bytes:
        """Some bytes, as soon as there are any; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send; waits while the other side does not read."""
        ...


class SocketWire:
    """A connection taken from the HTTP server, or made to a pod."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.waiting: Callable[[int], AbstractContextManager[None]] | None = None
        """Entered while the other side does not read, with the bytes that wait for it."""

    async def read(self) -> bytes:
        with contextlib.suppress(OSError):
            return await self._reader.read(READ_BYTES)
        return b""

    async def write(self, data: bytes) -> None:
        transport = self._writer.transport
        self._writer.write(data)
        buffered = transport.get_write_buffer_size()
        if self.waiting is None or buffered <= transport.get_write_buffer_limits()[1]:
            await self._writer.drain()
            return
        with self.waiting(buffered):
            await self._writer.drain()

    def abort(self) -> None:
        """End the connection at once; what is buffered is dropped."""
        self._writer.transport.abort()

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be sent."""
        return self._writer.transport.get_write_buffer_size() == 0

    async def lost(self) -> None:
        """Until there is no connection any more."""
        # wait_closed awaits a future that others share: to cancel it would be to lose it.
        closed = asyncio.ensure_future(self._writer.wait_closed())
        with contextlib.suppress(OSError):
            await asyncio.shield(closed)

    async def close(self) -> None:
        """Send what is left and part; from one who does not take it, without."""
        self._writer.close()
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self.lost()
        finally:
            self._writer.transport.abort()
