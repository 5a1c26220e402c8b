"""Answers on their way to clients: in pieces, at the client's pace, and bounded in total.

An answer is written a piece at a time, and the next one when the connection has taken the last.
What waits for a client that does not read is therefore one piece and the connection's own buffer,
plus the rest of the chunk that is being written. `PendingWrites` adds these up over all clients:
one that takes nothing for too long is disconnected, and sooner where all of them together hold too
much. A client that watches then connects again, as it does when kube-apiserver ends a slow watch.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kilonova.kube.logging import get_logger

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PIECE_BYTES = 32 << 10
"""Written at once; twice as much as a TLS record holds."""

PENDING_LIMIT = 256 << 20
"""Bytes that all clients together may leave waiting."""

STALLED_SECONDS = 60.0
"""After so long without taking a byte a client is disconnected; as long as kube-apiserver gives a
request that is not a watch."""

_STALLED_UNDER_PRESSURE = 1.0
_CHECK_SECONDS = 1.0

_log = get_logger(__name__)


class ClientConnection:
    """What an answer needs of its connection beside sending: nothing, where there is none."""

    def is_blocked(self) -> bool:
        """Whether the client has more to take before anything is written."""
        return False

    def buffered(self) -> int:
        """Bytes written that the client has not taken."""
        return 0

    def abort(self) -> None:
        """End the connection at once; what is buffered is dropped."""


@dataclass(eq=False, slots=True)
class PendingWrite:
    """A write that waits for its client. Unless it is `is_timed`, the client may take nothing for
    as long as there is room."""

    abort: Callable[[], None]
    path: str
    is_timed: bool


class PendingWrites:
    """Bytes of answers that wait for their clients, and who is disconnected for it."""

    def __init__(self) -> None:
        self.bytes = 0
        self.terminated = 0
        self._waiting: dict[PendingWrite, tuple[float, int]] = {}  # longest without progress first
        self._timer: asyncio.TimerHandle | None = None

    def add(self, write: PendingWrite, size: int) -> None:
        """A client blocks: `size` bytes wait for it."""
        self._waiting[write] = (asyncio.get_running_loop().time(), size)
        self.bytes += size
        if self._timer is None or self.bytes > PENDING_LIMIT:
            self._check()

    @property
    def clients(self) -> int:
        """How many are blocked."""
        return len(self._waiting)

    def remove(self, write: PendingWrite) -> None:
        """It has taken some, or has gone."""
        found = self._waiting.pop(write, None)
        if found is not None:
            self.bytes -= found[1]

    @contextmanager
    def waiting(self, write: PendingWrite, size: int) -> Generator[None]:
        """While a client is waited for."""
        self.add(write, size)
        try:
            yield
        finally:
            self.remove(write)

    def _check(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = loop.time()
        for write, (since, size) in list(self._waiting.items()):
            stalled = now - since
            if stalled < _STALLED_UNDER_PRESSURE:
                break
            if self.bytes > PENDING_LIMIT or (write.is_timed and stalled >= STALLED_SECONDS):
                self.remove(write)
                self.terminated += 1
                _log.info(
                    "disconnected a client that does not read",
                    path=write.path,
                    stalled=round(stalled, 1),
                    bytes=size,
                    pending=self.bytes,
                )
                write.abort()
        if self._waiting:
            self._timer = loop.call_later(_CHECK_SECONDS, self._check)


class ResponseWriter:
    """Writes the body of one answer. Unless it is `is_timed`, its client may take nothing for as
    long as there is room."""

    def __init__(
        self,
        send: Send,
        connection: ClientConnection,
        pending: PendingWrites,
        *,
        path: str = "",
    ) -> None:
        self.connection = connection
        self.is_timed = True
        self.path = path
        self._send = send
        self._pending = pending

    async def write(self, chunk: bytes) -> None:
        """Send all of a chunk; returns when the connection can take more."""
        size = len(chunk)
        if size <= PIECE_BYTES:
            await self._piece(chunk, 0)
            return
        view = memoryview(chunk)
        for start in range(0, size, PIECE_BYTES):
            end = min(start + PIECE_BYTES, size)
            await self._piece(view[start:end], size - end)

    async def _piece(self, piece: bytes | memoryview, rest: int) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        if not self.connection.is_blocked():
            return
        write = PendingWrite(self.connection.abort, self.path, self.is_timed)
        with self._pending.waiting(write, rest + self.connection.buffered()):
            # Nothing is sent, but not before there is room for it.
            await self._send({"type": "http.response.body", "body": b"", "more_body": True})
