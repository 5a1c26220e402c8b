"""An upgrade: the answer that accepts it, and the session that runs on the connection after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kilonova.kube.logging import get_logger
from kilonova.kube.transport import StreamReply
from kilonova.local.streaming.wire import ProtocolError, SocketWire, Wire

if TYPE_CHECKING:  # what speaks them is imported when somebody does
    from kilonova.local.streaming.spdystreams import SpdyConnection
    from kilonova.local.streaming.websocket import WebSocket

PING_SECONDS = 15.0

Cleanup = Callable[[], Awaitable[None]]

_log = get_logger(__name__)


async def _nothing() -> None:
    return


class WebSocketSession:
    """Something that is done over a WebSocket. `cleanup` follows in any case."""

    def __init__(
        self, use: Callable[[WebSocket], Awaitable[None]], cleanup: Cleanup = _nothing
    ) -> None:
        self._use = use
        self.cleanup = cleanup
        self._websocket: WebSocket | None = None

    async def run(self, wire: Wire) -> None:
        from kilonova.local.streaming.websocket import WebSocket

        self._websocket = WebSocket(wire)
        try:
            await self._use(self._websocket)
        except ProtocolError as error:
            await self._websocket.close(str(error))

    async def ping(self) -> None:
        if self._websocket is not None:
            await self._websocket.ping()


class SpdySession:
    """Something that is done over SPDY, on the bare connection. `cleanup` follows in any case."""

    def __init__(
        self, use: Callable[[SpdyConnection], Awaitable[None]], cleanup: Cleanup = _nothing
    ) -> None:
        self._use = use
        self.cleanup = cleanup
        self._connection: SpdyConnection | None = None

    async def run(self, wire: Wire) -> None:
        from kilonova.local.streaming.spdystreams import SpdyConnection

        self._connection = SpdyConnection(wire)
        try:
            await self._use(self._connection)
        except ProtocolError as error:
            _log.info("a client does not speak SPDY", error=str(error))
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
    """101, with the session that its connection is for."""

    status: int = 101
    chunks: AsyncIterator[bytes] = field(default_factory=_no_chunks)
    session: Session | None = None
    paced: bool = True


async def serve(session: Session, wire: SocketWire) -> None:
    """Run a session until it ends or its client is lost; then close the connection.

    A client whose bytes are not read, since nobody takes them, could vanish unseen: a ping now
    and then finds out.
    """
    running = asyncio.create_task(session.run(wire))
    lost = asyncio.create_task(wire.lost())
    try:
        while not (running.done() or lost.done()):
            await asyncio.wait(
                (running, lost), timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if not (running.done() or lost.done()) and wire.is_idle:
                await session.ping()
        if running.done():
            running.result()
    except OSError:
        return  # the client went away in the middle
    finally:
        running.cancel()
        lost.cancel()
        await asyncio.gather(running, lost, return_exceptions=True)
        await wire.close()
