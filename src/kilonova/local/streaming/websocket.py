"""WebSockets, the server's end: the handshake, messages, and a wire made of messages."""

import base64
import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

from kilonova.local.streaming.wire import ProtocolError, Wire

_TEXT_LIMIT = 4 << 20
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a message, as it comes; `last` completes the message."""

    data: bytes
    last: bool


class Messages(Protocol):
    """Messages both ways, whatever they look like on the wire."""

    def pieces(self) -> AsyncIterator[Piece]:
        """What the client sends; ends when it closes."""
        ...

    async def send(self, data: bytes) -> None:
        """One message; waits while the client does not read."""
        ...

    async def close(self, error: str = "") -> None:
        """Say that this was all; or why there will be no more."""
        ...


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

    async def send_text(self, text: str, *, last: bool = True) -> None:
        """One message of text, or a part of one; waits while the client does not read."""
        await self._send(TextMessage(data=text, message_finished=last))

    async def ping(self) -> None:
        await self._send(Ping())

    async def close(self, error: str = "") -> None:
        """Say that this was all; or why there will be no more."""
        code = CloseReason.PROTOCOL_ERROR if error else CloseReason.NORMAL_CLOSURE
        await self._send(CloseConnection(code=code, reason=error or None))

    async def _send(
        self, event: BytesMessage | TextMessage | Ping | Pong | CloseConnection
    ) -> None:
        open_to = (ConnectionState.OPEN,)
        if isinstance(event, CloseConnection):
            open_to = (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING)
        if self._connection.state in open_to:
            await self._wire.write(bytes(self._connection.send(event)))


class Base64WebSocket:
    """Messages of channels as text: a digit for the channel, and base64. For browsers of old."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    async def pieces(self) -> AsyncIterator[Piece]:
        """Whole messages. What cannot be read is passed over, as in Kubernetes."""
        parts: list[bytes] = []
        size = 0
        async for piece in self._websocket.pieces():
            parts.append(piece.data)
            size += len(piece.data)
            if size > _TEXT_LIMIT:
                raise ProtocolError(f"a message is longer than {_TEXT_LIMIT} bytes")
            if not piece.last:
                continue
            text = b"".join(parts)
            parts.clear()
            size = 0
            if text:
                with contextlib.suppress(ValueError):
                    channel = bytes((text[0] - ord("0"),))
                    yield Piece(channel + base64.b64decode(text[1:], validate=True), True)

    async def send(self, data: bytes) -> None:
        text = base64.b64encode(data[1:]).decode()
        await self._websocket.send_text(chr(ord("0") + data[0]) + text)

    async def close(self, error: str = "") -> None:
        await self._websocket.close(error)


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
    accepting = {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-accept": base64.b64encode(digest.digest()).decode(),
    }
    if protocol:
        accepting["sec-websocket-protocol"] = protocol
    return accepting
