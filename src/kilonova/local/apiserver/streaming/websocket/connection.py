"""The server's end of a WebSocket: handshake, messages, and a byte stream over messages."""

import base64
import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage
from wsproto.frame_protocol import CloseReason

from kilonova.local.apiserver.streaming.byte_stream import ByteStream, ProtocolError

_TEXT_LIMIT = 4 << 20
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@dataclass(frozen=True, slots=True)
class MessagePiece:
    """Part of a message, as it arrives; `last` completes the message."""

    data: bytes
    last: bool


class MessageStream(Protocol):
    """Messages both ways, in any encoding."""

    def pieces(self) -> AsyncIterator[MessagePiece]:
        """What the client sends; ends when it closes."""
        ...

    async def send(self, data: bytes) -> None:
        """Send one message; waits while the client does not read."""
        ...

    async def close(self, error: str = "") -> None:
        """Close the connection, with an error if there is one."""
        ...


class WebSocket:
    """Messages on a byte stream. Pings are answered while messages are read."""

    def __init__(self, byte_stream: ByteStream) -> None:
        self._byte_stream = byte_stream
        self._connection = Connection(ConnectionType.SERVER)

    async def pieces(self) -> AsyncIterator[MessagePiece]:
        """What the client sends, without waiting for whole messages; ends when it closes."""
        while data := await self._byte_stream.read():
            self._connection.receive_data(data)
            for event in self._connection.events():
                match event:
                    case BytesMessage():
                        yield MessagePiece(bytes(event.data), event.message_finished)
                    case TextMessage():
                        # The official Python client sends strings this way; Kubernetes accepts
                        # them.
                        yield MessagePiece(event.data.encode(), event.message_finished)
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
        """Send one binary message; waits while the client does not read."""
        await self._send(BytesMessage(data=data))

    async def send_text(self, text: str, *, last: bool = True) -> None:
        """Send a text message, or a part of one; waits while the client does not read."""
        await self._send(TextMessage(data=text, message_finished=last))

    async def ping(self) -> None:
        await self._send(Ping())

    async def close(self, error: str = "") -> None:
        """Close the connection, with an error if there is one."""
        code = CloseReason.PROTOCOL_ERROR if error else CloseReason.NORMAL_CLOSURE
        await self._send(CloseConnection(code=code, reason=error or None))

    async def _send(
        self, event: BytesMessage | TextMessage | Ping | Pong | CloseConnection
    ) -> None:
        open_to = (ConnectionState.OPEN,)
        if isinstance(event, CloseConnection):
            open_to = (ConnectionState.OPEN, ConnectionState.REMOTE_CLOSING)
        if self._connection.state in open_to:
            await self._byte_stream.write(bytes(self._connection.send(event)))


class Base64WebSocket:
    """Channel messages as text: a digit for the channel, and base64. For old browsers."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    async def pieces(self) -> AsyncIterator[MessagePiece]:
        """Whole messages. Invalid ones are skipped, as in Kubernetes."""
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
                    yield MessagePiece(channel + base64.b64decode(text[1:], validate=True), True)

    async def send(self, data: bytes) -> None:
        text = base64.b64encode(data[1:]).decode()
        await self._websocket.send_text(chr(ord("0") + data[0]) + text)

    async def close(self, error: str = "") -> None:
        await self._websocket.close(error)


class WebSocketByteStream:
    """A byte stream over the messages of a WebSocket, whose boundaries are ignored."""

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
    """Whether a request is a valid WebSocket handshake."""
    return (
        headers.get("upgrade", "").lower() == "websocket"
        and headers.get("sec-websocket-version") == "13"
        and bool(headers.get("sec-websocket-key"))
    )


def handshake_headers(headers: Mapping[str, str], protocol: str) -> dict[str, str]:
    """The response headers that accept it."""
    digest = hashlib.sha1(headers["sec-websocket-key"].encode() + _GUID)  # noqa: S324 (RFC 6455)
    accepting = {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-accept": base64.b64encode(digest.digest()).decode(),
    }
    if protocol:
        accepting["sec-websocket-protocol"] = protocol
    return accepting
