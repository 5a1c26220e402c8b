"""Streams that a client opens over one SPDY connection, the server's end.

SPDY clients of Kubernetes keep no windows: what holds a client back is that its wire is not
read. So a stream that nobody reads here stops, once its buffer is full, all streams of its
connection; as in Kubernetes.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping

from kilonova.local.streaming.spdy import (
    Data,
    Decoder,
    Encoder,
    Frame,
    GoAway,
    Opened,
    Ping,
    Replied,
    Reset,
    ResetStatus,
)
from kilonova.local.streaming.wire import Wire

STREAM_BUFFER = 256 << 10
MOST_STREAMS = 1024


class SpdyStream:
    """One stream: bytes from the client until its end, bytes to it until ours."""

    def __init__(self, connection: "SpdyConnection", opened: Opened) -> None:
        self.number = opened.stream
        self.headers: Mapping[str, str] = opened.headers
        self._connection = connection
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self._their_end = opened.fin
        self._our_end = False

    @property
    def is_over(self) -> bool:
        return self._their_end and self._our_end

    async def read(self) -> bytes:
        """Some bytes; empty when the client sends no more."""
        while not self._pieces:
            if self._their_end:
                return b""
            await self._change()
        piece = self._pieces.popleft()
        self._size -= len(piece)
        self._changed.set()
        return piece

    async def write(self, data: bytes) -> None:
        """Send; waits while the client does not read. Nothing happens on a stream that is over."""
        if not self._our_end:
            await self._connection.send(self._connection.encoder.data(self.number, data))

    async def finish(self) -> None:
        """We send no more; the client still may."""
        if not self._our_end:
            self._our_end = True
            self._connection.forget_if_over(self)
            await self._connection.send(self._connection.encoder.data(self.number, b"", fin=True))

    async def reset(self, status: ResetStatus) -> None:
        """End both directions at once."""
        self.end()
        self._connection.forget_if_over(self)
        await self._connection.send(self._connection.encoder.reset(self.number, status))

    async def take(self, data: bytes, *, fin: bool) -> None:
        """What the client sent; waits while there is no room for it."""
        if self._their_end:
            return
        while self._size and self._size + len(data) > STREAM_BUFFER and not self._their_end:
            await self._change()
        if data:
            self._pieces.append(data)
            self._size += len(data)
        self._their_end = self._their_end or fin
        self._changed.set()

    def end(self) -> None:
        """Nothing comes or goes any more; what came can still be read."""
        self._their_end = self._our_end = True
        self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class SpdyConnection:
    """The streams on one wire."""

    def __init__(self, wire: Wire) -> None:
        self.encoder = Encoder()
        self._wire = wire
        self._decoder = Decoder()
        self._streams: dict[int, SpdyStream] = {}
        self._last = 0
        self._pings = 0

    async def opened(self) -> AsyncIterator[SpdyStream]:
        """Each stream as the client opens it, until the wire ends; asking on is what reads it."""
        try:
            while data := await self._wire.read():
                for frame in self._decoder.feed(data):
                    stream = await self._take(frame)
                    if stream is not None:
                        yield stream
        finally:
            for stream in self._streams.values():
                stream.end()

    async def send(self, frame: bytes) -> None:
        await self._wire.write(frame)

    async def ping(self) -> None:
        """Show that we are here; and find out whether the client is."""
        self._pings = self._pings + 2 & 0x7FFFFFFF
        await self.send(self.encoder.ping(self._pings))

    async def go_away(self) -> None:
        """Tell the client to open no more streams."""
        await self.send(self.encoder.go_away(self._last))

    def forget_if_over(self, stream: SpdyStream) -> None:
        if stream.is_over:
            self._streams.pop(stream.number, None)

    async def _take(self, frame: Frame) -> SpdyStream | None:
        match frame:
            case Opened():
                return await self._open(frame)
            case Data(number, data, fin):
                stream = self._streams.get(number)
                if stream is not None:
                    await stream.take(data, fin=fin)
                    self.forget_if_over(stream)
            case Reset(number):
                stream = self._streams.pop(number, None)
                if stream is not None:
                    stream.end()
            case Ping(number):
                if number % 2:  # else an answer to ours
                    await self.send(self.encoder.ping(number))
            case Replied() | GoAway():
                pass
        return None

    async def _open(self, frame: Opened) -> SpdyStream | None:
        refused = ResetStatus.REFUSED_STREAM if len(self._streams) >= MOST_STREAMS else None
        if frame.stream % 2 == 0 or frame.stream <= self._last:
            refused = ResetStatus.PROTOCOL_ERROR
        if refused is not None:
            await self.send(self.encoder.reset(frame.stream, refused))
            return None
        self._last = frame.stream
        stream = self._streams[frame.stream] = SpdyStream(self, frame)
        await self.send(self.encoder.replied(frame.stream))
        return stream
