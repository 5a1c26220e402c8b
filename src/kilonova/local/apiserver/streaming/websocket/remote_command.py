"""A remote command over a WebSocket: the first byte of each message is its channel."""

from collections.abc import AsyncIterator
from enum import IntEnum

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.registry.encoding import encode
from kilonova.local.apiserver.streaming.remote_command import (
    ClientInput,
    StdinClosed,
    StdinData,
    StreamOptions,
    decode_terminal_size,
)
from kilonova.local.apiserver.streaming.websocket.connection import MessagePiece, MessageStream
from kilonova.local.kubelet_api import OutputStream

_V5 = "v5.channel.k8s.io"
_V4 = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")
_V1 = ("", "channel.k8s.io", "base64.channel.k8s.io")
REMOTE_COMMAND_PROTOCOLS = (_V5, *_V4, *_V1)
"""Protocols of exec and attach. Before version 4 errors are plain text, and success is not
reported."""

PORT_FORWARD_PROTOCOLS = (*_V4, *_V1)
"""Protocols of port-forward, which all have the same channels."""

_TERMINAL_SIZE_LIMIT = 4096


class StreamChannel(IntEnum):
    """The stream that a message belongs to."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255  # closes the channel that the second byte names; in v5


class ChannelDecoder:
    """Decodes message pieces. Buffers no more than a terminal size."""

    def __init__(self, *, supports_close: bool) -> None:
        self._supports_close = supports_close
        self._channel: int | None = None
        self._buffer = b""

    def decode(self, piece: MessagePiece) -> ClientInput | None:
        """The client's input that this piece completes. Unknown channels are ignored."""
        data = piece.data
        if self._channel is None and data:
            self._channel, data = data[0], data[1:]
        channel = self._channel
        if channel in (StreamChannel.RESIZE, StreamChannel.CLOSE):
            self._buffer = (self._buffer + data)[:_TERMINAL_SIZE_LIMIT]
        buffered = self._buffer
        if piece.last:
            self._channel, self._buffer = None, b""
        if channel == StreamChannel.STDIN and data:
            return StdinData(data)
        if piece.last and channel == StreamChannel.RESIZE:
            return decode_terminal_size(buffered)
        if (
            piece.last
            and channel == StreamChannel.CLOSE
            and self._supports_close
            and buffered == b"\0"
        ):
            return StdinClosed()
        return None


class WebSocketClientStreams:
    """The client at the other end of a WebSocket."""

    def __init__(self, websocket: MessageStream, protocol: str) -> None:
        self._websocket = websocket
        self._reader = ChannelDecoder(supports_close=protocol == _V5)
        self._plain_text_errors = protocol in _V1

    async def open(self, options: StreamOptions) -> None:
        """Send an empty message, by which Kubernetes clients know that the connection is open."""
        if options.stdout:
            channel = StreamChannel.STDOUT
        else:
            channel = StreamChannel.STDERR if options.stderr else StreamChannel.ERROR
        await self._websocket.send(bytes((channel,)))

    async def read_input(self) -> AsyncIterator[ClientInput]:
        async for piece in self._websocket.pieces():
            event = self._reader.decode(piece)
            if event is not None:
                yield event

    async def write_output(self, output: OutputStream, data: bytes) -> None:
        await self._websocket.send(bytes((output,)) + data)

    async def send_status(self, outcome: JsonObject) -> None:
        if not self._plain_text_errors:
            await self._websocket.send(bytes((StreamChannel.ERROR,)) + encode(outcome))
        elif outcome.get("status") != "Success":
            await self._websocket.send(bytes((StreamChannel.ERROR,)) + outcome["message"].encode())
        await self._websocket.close()
