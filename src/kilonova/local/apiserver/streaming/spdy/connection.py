"""The server's end of a SPDY connection, whose streams are opened by the client.

SPDY clients of Kubernetes have no flow-control windows: backpressure means that the connection is
not read. So a stream that is not read here blocks, once its buffer is full, all streams of its
connection; as in Kubernetes.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping

from kilonova.local.apiserver.streaming.byte_stream import ByteStream
from kilonova.local.apiserver.streaming.spdy.frames import (
    Frame,
    GoAway,
    Ping,
    ResetStatus,
    SpdyDecoder,
    SpdyEncoder,
    StreamAccepted,
    StreamData,
    StreamOpened,
    StreamReset,
)

STREAM_BUFFER = 256 << 10
MAX_STREAMS = 1024


class SpdyStream:
    """One stream: bytes from the client until it closes, bytes to it until we close."""

    def __init__(self, connection: "SpdyConnection", opened: StreamOpened) -> None:
        self.number = opened.stream
        self.headers: Mapping[str, str] = opened.headers
        self._connection = connection
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._changed = asyncio.Event()
        self._remote_closed = opened.fin
        self._local_closed = False

    @property
    def is_closed(self) -> bool:
        return self._remote_closed and self._local_closed

    async def read(self) -> bytes:
        """Some bytes; empty when the client sends no more."""
        while not self._pieces:
            if self._remote_closed:
                return b""
            await self._notify_changed()
        piece = self._pieces.popleft()
        self._size -= len(piece)
        self._changed.set()
        return piece

    async def write(self, data: bytes) -> None:
        """Send bytes; waits while the client does not read. Does nothing on a closed stream."""
        if not self._local_closed:
            await self._connection.send(self._connection.encoder.encode_data(self.number, data))

    async def close_write(self) -> None:
        """Close our direction; the client may still send."""
        if not self._local_closed:
            self._local_closed = True
            self._connection.remove_if_closed(self)
            await self._connection.send(
                self._connection.encoder.encode_data(self.number, b"", fin=True)
            )

    async def reset(self, status: ResetStatus) -> None:
        """Close both directions at once."""
        self.close()
        self._connection.remove_if_closed(self)
        await self._connection.send(self._connection.encoder.encode_reset(self.number, status))

    async def receive(self, data: bytes, *, fin: bool) -> None:
        """Buffer data of the client; waits while the buffer is full."""
        if self._remote_closed:
            return
        while self._size and self._size + len(data) > STREAM_BUFFER and not self._remote_closed:
            await self._notify_changed()
        if data:
            self._pieces.append(data)
            self._size += len(data)
        self._remote_closed = self._remote_closed or fin
        self._changed.set()

    def close(self) -> None:
        """Close the stream; buffered data can still be read."""
        self._remote_closed = self._local_closed = True
        self._changed.set()

    async def _notify_changed(self) -> None:
        self._changed.clear()
        await self._changed.wait()


class SpdyConnection:
    """The streams of one connection."""

    def __init__(self, byte_stream: ByteStream) -> None:
        self.encoder = SpdyEncoder()
        self._byte_stream = byte_stream
        self._decoder = SpdyDecoder()
        self._streams: dict[int, SpdyStream] = {}
        self._last_stream = 0
        self._pings = 0

    async def accept_streams(self) -> AsyncIterator[SpdyStream]:
        """Each stream as the client opens it, until the connection ends; iterating reads from
        it."""
        try:
            while data := await self._byte_stream.read():
                for frame in self._decoder.feed(data):
                    stream = await self._handle_frame(frame)
                    if stream is not None:
                        yield stream
        finally:
            for stream in self._streams.values():
                stream.close()

    async def send(self, frame: bytes) -> None:
        await self._byte_stream.write(frame)

    async def ping(self) -> None:
        """Send a ping, which detects a vanished client."""
        self._pings = self._pings + 2 & 0x7FFFFFFF
        await self.send(self.encoder.encode_ping(self._pings))

    async def go_away(self) -> None:
        """Request that the client opens no more streams."""
        await self.send(self.encoder.encode_go_away(self._last_stream))

    def remove_if_closed(self, stream: SpdyStream) -> None:
        if stream.is_closed:
            self._streams.pop(stream.number, None)

    async def _handle_frame(self, frame: Frame) -> SpdyStream | None:
        match frame:
            case StreamOpened():
                return await self._open_stream(frame)
            case StreamData(number, data, fin):
                stream = self._streams.get(number)
                if stream is not None:
                    await stream.receive(data, fin=fin)
                    self.remove_if_closed(stream)
            case StreamReset(number):
                stream = self._streams.pop(number, None)
                if stream is not None:
                    stream.close()
            case Ping(number):
                if number % 2:  # else a reply to ours
                    await self.send(self.encoder.encode_ping(number))
            case StreamAccepted() | GoAway():
                pass
        return None

    async def _open_stream(self, frame: StreamOpened) -> SpdyStream | None:
        rejection = ResetStatus.REFUSED_STREAM if len(self._streams) >= MAX_STREAMS else None
        if frame.stream % 2 == 0 or frame.stream <= self._last_stream:
            rejection = ResetStatus.PROTOCOL_ERROR
        if rejection is not None:
            await self.send(self.encoder.encode_reset(frame.stream, rejection))
            return None
        self._last_stream = frame.stream
        stream = self._streams[frame.stream] = SpdyStream(self, frame)
        await self.send(self.encoder.encode_reply(frame.stream))
        return stream
