"""A console over a WebSocket: the first byte of each message says which stream it is of."""

from collections.abc import AsyncIterator
from enum import IntEnum

from kilonova.api.json import JsonObject
from kilonova.local.kubelets import Output
from kilonova.local.registry.objects import encode
from kilonova.local.streaming.console import Input, InputEnded, Typed, Wanted, resized
from kilonova.local.streaming.websocket import Messages, Piece

_V5 = "v5.channel.k8s.io"
_V4 = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")
_V1 = ("", "channel.k8s.io", "base64.channel.k8s.io")
CONSOLE_PROTOCOLS = (_V5, *_V4, *_V1)
"""Of exec and attach. Before version 4 errors are plain words, and success is not told."""

PORT_PROTOCOLS = (*_V4, *_V1)
"""Of port-forward, whose channels are the same in all of them."""

_TERMINAL_SIZE_LIMIT = 4096


class Channel(IntEnum):
    """Whose the bytes of a message are."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4
    CLOSE = 255  # of the channel that the second byte names; in v5


class ChannelReader:
    """What the pieces of messages stand for. Keeps no more than a terminal's size."""

    def __init__(self, *, closes: bool) -> None:
        self._closes = closes
        self._channel: int | None = None
        self._kept = b""

    def read(self, piece: Piece) -> Input | None:
        """The client's doing that this piece completes. Unknown channels are passed over."""
        data = piece.data
        if self._channel is None and data:
            self._channel, data = data[0], data[1:]
        channel = self._channel
        if channel in (Channel.RESIZE, Channel.CLOSE):
            self._kept = (self._kept + data)[:_TERMINAL_SIZE_LIMIT]
        kept = self._kept
        if piece.last:
            self._channel, self._kept = None, b""
        if channel == Channel.STDIN and data:
            return Typed(data)
        if piece.last and channel == Channel.RESIZE:
            return resized(kept)
        if piece.last and channel == Channel.CLOSE and self._closes and kept == b"\0":
            return InputEnded()
        return None


class ChannelConsole:
    """The client at the other end of a WebSocket."""

    def __init__(self, websocket: Messages, protocol: str) -> None:
        self._websocket = websocket
        self._reader = ChannelReader(closes=protocol == _V5)
        self._in_words = protocol in _V1

    async def begin(self, wanted: Wanted) -> None:
        """An empty message, by which clients of Kubernetes know that the connection stands."""
        if wanted.stdout:
            channel = Channel.STDOUT
        else:
            channel = Channel.STDERR if wanted.stderr else Channel.ERROR
        await self._websocket.send(bytes((channel,)))

    async def inputs(self) -> AsyncIterator[Input]:
        async for piece in self._websocket.pieces():
            event = self._reader.read(piece)
            if event is not None:
                yield event

    async def show(self, output: Output, data: bytes) -> None:
        await self._websocket.send(bytes((output,)) + data)

    async def finish(self, outcome: JsonObject) -> None:
        if not self._in_words:
            await self._websocket.send(bytes((Channel.ERROR,)) + encode(outcome))
        elif outcome.get("status") != "Success":
            await self._websocket.send(bytes((Channel.ERROR,)) + outcome["message"].encode())
        await self._websocket.close()
