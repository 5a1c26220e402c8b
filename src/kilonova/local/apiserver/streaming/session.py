"""An upgrade: the response that accepts it, and the session that runs on the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kilonova.kube.client.transport import StreamReply
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.apiserver.streaming.byte_stream import ByteStream, ProtocolError, SocketStream

if TYPE_CHECKING:  # the protocols are imported when they are used
    from kilonova.local.apiserver.streaming.spdy.connection import SpdyConnection
    from kilonova.local.apiserver.streaming.websocket.connection import WebSocket

PING_SECONDS = 15.0

SessionCleanup = Callable[[], Awaitable[None]]

_log = get_logger(__name__)


async def _no_cleanup() -> None:
    return


class WebSocketSession:
    """A session over a WebSocket. `cleanup` is always called."""

    def __init__(
        self, use: Callable[[WebSocket], Awaitable[None]], cleanup: SessionCleanup = _no_cleanup
    ) -> None:
        self._serve = use
        self.cleanup = cleanup
        self._websocket: WebSocket | None = None

    async def run(self, connection: ByteStream) -> None:
        from kilonova.local.apiserver.streaming.websocket.connection import WebSocket

        self._websocket = WebSocket(connection)
        try:
            await self._serve(self._websocket)
        except ProtocolError as error:
            await self._websocket.close(str(error))

    async def ping(self) -> None:
        if self._websocket is not None:
            await self._websocket.ping()


class SpdySession:
    """A session over SPDY, on the socket itself. `cleanup` is always called."""

    def __init__(
        self,
        use: Callable[[SpdyConnection], Awaitable[None]],
        cleanup: SessionCleanup = _no_cleanup,
    ) -> None:
        self._serve = use
        self.cleanup = cleanup
        self._connection: SpdyConnection | None = None

    async def run(self, connection: ByteStream) -> None:
        from kilonova.local.apiserver.streaming.spdy.connection import SpdyConnection

        self._connection = SpdyConnection(connection)
        try:
            await self._serve(self._connection)
        except ProtocolError as error:
            _log.info("SPDY protocol error", error=str(error))
        await self._connection.go_away()

    async def ping(self) -> None:
        if self._connection is not None:
            await self._connection.ping()


Session = WebSocketSession | SpdySession


async def _no_chunks() -> AsyncIterator[bytes]:
    return
    yield b""


@dataclass(slots=True)
class Upgrade(StreamReply):
    """101, with the session for its connection."""

    status: int = 101
    chunks: AsyncIterator[bytes] = field(default_factory=_no_chunks)
    session: Session | None = None
    waits_for_client: bool = True


async def serve_session(session: Session, connection: SocketStream) -> None:
    """Run a session until it ends or its client is lost; then close the connection.

    A client could vanish unnoticed while its bytes are not read: pings detect that.
    """
    running = asyncio.create_task(session.run(connection))
    lost = asyncio.create_task(connection.wait_lost())
    try:
        while not (running.done() or lost.done()):
            await asyncio.wait(
                (running, lost), timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if not (running.done() or lost.done()) and connection.is_idle:
                await session.ping()
        if running.done():
            running.result()
    except OSError:
        return  # the client disconnected
    finally:
        running.cancel()
        lost.cancel()
        await asyncio.gather(running, lost, return_exceptions=True)
        await connection.close()
