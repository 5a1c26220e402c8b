"""Writes responses in pieces, as fast as the client reads, with a bound on the total.

A response is written piece by piece, the next one when the connection has accepted the last. So
only one piece, the connection's own buffer and the rest of the current chunk are pending for a
client that does not read. `PendingWrites` adds these up over all clients: a client that reads
nothing for too long is disconnected, and sooner if all of them together hold too much. A watch
client then reconnects, as it does when kube-apiserver ends a slow watch.
"""

import asyncio
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from kilonova.kube.client.transport import Reply, StreamReply
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.serving.asgi import Send

WRITE_CHUNK_BYTES = 32 << 10
"""The size of a piece; twice the size of a TLS record."""

PENDING_BYTES_LIMIT = 256 << 20
"""The maximum number of pending bytes of all clients together."""

STALLED_SECONDS = 60.0
"""A client that reads no byte for this time is disconnected; kube-apiserver's timeout for requests
other than watches."""

_STALLED_SECONDS_UNDER_PRESSURE = 1.0
_CHECK_SECONDS = 1.0

_log = get_logger(__name__)


class ClientConnection(Protocol):
    """The connection of a response."""

    def is_blocked(self) -> bool:
        """Whether the client must read more before anything else is written."""
        ...

    def buffered(self) -> int:
        """Bytes written that the client has not read."""
        ...

    def abort(self) -> None:
        """Close the connection at once; buffered bytes are dropped."""
        ...


@dataclass(eq=False, slots=True)
class PendingWrite:
    """A write that waits for its client. Without `has_timeout`, the client may stall for as long as
    the total limit is not reached."""

    abort: Callable[[], None]
    path: str
    has_timeout: bool


class PendingWrites:
    """Pending bytes of all responses; disconnects stalled clients."""

    def __init__(self) -> None:
        self.pending_bytes = 0
        self.disconnected_clients = 0
        self._waiting: dict[PendingWrite, tuple[float, int]] = {}  # longest without progress first
        self._timer: asyncio.TimerHandle | None = None

    def add(self, write: PendingWrite, size: int) -> None:
        """A client is blocked: `size` bytes are pending."""
        self._waiting[write] = (asyncio.get_running_loop().time(), size)
        self.pending_bytes += size
        if self._timer is None or self.pending_bytes > PENDING_BYTES_LIMIT:
            self._disconnect_stalled()

    @property
    def blocked_clients(self) -> int:
        """The number of blocked clients."""
        return len(self._waiting)

    def remove(self, write: PendingWrite) -> None:
        """The client has read some bytes, or has disconnected."""
        found = self._waiting.pop(write, None)
        if found is not None:
            self.pending_bytes -= found[1]

    @contextmanager
    def track(self, write: PendingWrite, size: int) -> Generator[None]:
        """Count the bytes as pending while the client is waited for."""
        self.add(write, size)
        try:
            yield
        finally:
            self.remove(write)

    def _disconnect_stalled(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = loop.time()
        for write, (since, size) in list(self._waiting.items()):
            stalled = now - since
            if stalled < _STALLED_SECONDS_UNDER_PRESSURE:
                break
            if self.pending_bytes > PENDING_BYTES_LIMIT or (
                write.has_timeout and stalled >= STALLED_SECONDS
            ):
                self.remove(write)
                self.disconnected_clients += 1
                _log.info(
                    "disconnected stalled client",
                    path=write.path,
                    stalled=round(stalled, 1),
                    bytes=size,
                    pending=self.pending_bytes,
                )
                write.abort()
        if self._waiting:
            self._timer = loop.call_later(_CHECK_SECONDS, self._disconnect_stalled)


class ResponseWriter:
    """Writes one response."""

    __slots__ = ("_connection", "_has_timeout", "_path", "_pending_writes", "_send")

    def __init__(
        self, send: Send, connection: ClientConnection, pending: PendingWrites, path: str
    ) -> None:
        self._send = send
        self._connection = connection
        self._pending_writes = pending
        self._path = path
        self._has_timeout = True

    async def send_reply(self, reply: Reply, *, close_connection: bool = False) -> None:
        """Send a complete response. `close_connection` if the request's body has not been read: the
        connection cannot be reused."""
        body = reply.body
        headers = _encode_headers(reply.headers.items())
        headers.append((b"content-length", str(len(body)).encode()))
        if close_connection:
            headers.append((b"connection", b"close"))
        await self._send(
            {"type": "http.response.start", "status": reply.status, "headers": headers}
        )
        if len(body) > WRITE_CHUNK_BYTES:
            await self._write(body)
            body = b""
        await self._send({"type": "http.response.body", "body": body})

    async def send_stream(
        self,
        reply: StreamReply,
        headers: Iterable[tuple[str, str]],
        *,
        may_end_anywhere: bool = True,
    ) -> None:
        """Send chunks as they arrive, each after the client has read the ones before it.

        A stream that fails is truncated visibly, without the last chunk of the encoding. One that
        is cancelled is too, unless it `may_end_anywhere`, as a watch.
        """
        self._has_timeout = not reply.waits_for_client
        chunks = reply.chunks
        start = {"status": reply.status, "headers": _encode_headers(headers)}
        await self._send({"type": "http.response.start", **start})
        is_complete = False
        try:
            async for chunk in chunks:
                await self._write(chunk)
                del chunk  # free it while the next one is awaited
            is_complete = True
        except asyncio.CancelledError:
            is_complete = may_end_anywhere
            raise
        finally:
            close: Any = getattr(chunks, "aclose", None)
            if close is not None:
                await close()
            if self._connection.is_blocked():
                self._connection.abort()  # a graceful end would wait for the client as well
            elif is_complete:
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _write(self, chunk: bytes) -> None:
        """Send a whole chunk; returns when the connection accepts more."""
        size = len(chunk)
        if size <= WRITE_CHUNK_BYTES:
            await self._write_piece(chunk, 0)
            return
        view = memoryview(chunk)
        for start in range(0, size, WRITE_CHUNK_BYTES):
            end = min(start + WRITE_CHUNK_BYTES, size)
            await self._write_piece(view[start:end], size - end)

    async def _write_piece(self, piece: bytes | memoryview, rest: int) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        connection = self._connection
        if not connection.is_blocked():
            return
        write = PendingWrite(connection.abort, self._path, self._has_timeout)
        with self._pending_writes.track(write, rest + connection.buffered()):
            # Send nothing, but wait until the connection accepts more.
            await self._send({"type": "http.response.body", "body": b"", "more_body": True})


def _encode_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
