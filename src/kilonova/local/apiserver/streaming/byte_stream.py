"""A byte stream: bytes both ways, with backpressure."""

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

READ_BYTES = 64 << 10
_FLUSH_SECONDS = 5.0


class ProtocolError(Exception):
    """The peer violates the negotiated protocol."""


class ByteStream(Protocol):
    """Bytes both ways."""

    async def read(self) -> bytes:
        """Some bytes, as soon as there are any; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the peer does not read."""
        ...


class SocketStream:
    """A connection hijacked from the HTTP server, or opened to a pod."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.track_blocked_write: Callable[[int], AbstractContextManager[None]] | None = None
        """Entered while the peer does not read, with the number of pending bytes."""

    async def read(self) -> bytes:
        with contextlib.suppress(OSError):
            return await self._reader.read(READ_BYTES)
        return b""

    async def write(self, data: bytes) -> None:
        transport = self._writer.transport
        self._writer.write(data)
        buffered = transport.get_write_buffer_size()
        if self.track_blocked_write is None or buffered <= transport.get_write_buffer_limits()[1]:
            await self._writer.drain()
            return
        with self.track_blocked_write(buffered):
            await self._writer.drain()

    def abort(self) -> None:
        """Close the connection at once; buffered bytes are dropped."""
        self._writer.transport.abort()

    @property
    def is_idle(self) -> bool:
        """Whether no bytes are waiting to be sent."""
        return self._writer.transport.get_write_buffer_size() == 0

    async def wait_lost(self) -> None:
        """Wait until the connection is lost."""
        # wait_closed awaits a shared future, which must not be cancelled.
        closed = asyncio.ensure_future(self._writer.wait_closed())
        try:
            await asyncio.shield(closed)
        except OSError as error:
            # The stream refers to the error, and the frames in its traceback to the stream: without
            # this, all of it would wait for the garbage collector.
            error.__traceback__ = None

    async def close(self) -> None:
        """Flush and close; without flushing if the peer does not read."""
        self._writer.close()
        try:
            async with asyncio.timeout(_FLUSH_SECONDS):
                await self.wait_lost()
        finally:
            self._writer.transport.abort()
