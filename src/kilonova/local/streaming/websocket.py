"""WebSockets, the server's end: the handshake, messages, and a wire made of messages."""

import base64
import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

from kilonova.local.streaming.wire import ProtocolError, Wire

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a message, as it comes; `last` completes the message."""

    data: bytes
    last: bool


class WebSocket:
    """Messages on a wire. Pings are answered while messages are read."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._connection = Connection(ConnectionType.SERVER)

    async def pieces(self) -> AsyncIterator[Piece]:
        """What the client sends, without waiting for whole messages; ends when it closes."""
        while data := await self._wire.read():
            self._connection.receive_data(data)
            for event in self._connection.events():
                match event:
                    case BytesMessage():
                        yield Piece(bytes(event.data), event.message_finished)
                    case TextMessage():
                        # The official Python client sends strings so; Kubernetes takes them.
                        yield Piece(event.data.encode(), event.message_finished)
                    case Ping():
                        await self._send(event.response())
                    case CloseConnection():
                        if self._connection.state is ConnectionState.OPEN:
                            raise ProtocolError(event.reason or "not a WebSocket frame")
                        await self._send(event.response())
                        return
                    case _:
                        pass

    async def send(self, data: bytes) -> None:
        """One binary message; waits while the client does not read."""
        await self._send(BytesMessage(data=data))

    async def ping(self) -> None:
        await self._send(Ping())

    async def close(self, error: str = "") -> None:
        """Say that this was all; or why there will be no more."""
        code = CloseReason.PROTOCOL_ERROR if error else CloseReason.NORMAL_CLOSURE
        await self._send(CloseConnection(code=code, reason=error or None))

    async def _send(self, event: BytesMessage | Ping | Pong | CloseConnection) -> None:
        open_to = (ConnectionState.OPEN,)
        if isinstance(event, CloseConnection):
            open_to = (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING)
        if self._connection.state in open_to:
            await self._wire.write(bytes(self._connection.send(event)))


class Tunnel:
    """A wire made of a WebSocket's messages, whose borders mean nothing."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self._pieces = websocket.pieces()

    async def read(self) -> bytes:
        async for piece in self._pieces:
            if piece.data:
                return piece.data
        return b""

    async def write(self, data: bytes) -> None:
        await self._websocket.send(data)


def is_handshake(headers: Mapping[str, str]) -> bool:
    """Whether a request asks for a WebSocket, and rightly."""
    return (
        headers.get("upgrade", "").lower() == "websocket"
        and headers.get("sec-websocket-version") == "13"
        and bool(headers.get("sec-websocket-key"))
    )


def handshake(headers: Mapping[str, str], protocol: str) -> dict[str, str]:
    """The headers that accept it."""
    digest = hashlib.sha1(headers["sec-websocket-key"].encode() + _GUID)  # noqa: S324 (RFC 6455)
    return {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-accept": base64.b64encode(digest.digest()).decode(),
        "sec-websocket-protocol": protocol,
    }
