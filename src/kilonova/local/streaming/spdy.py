"""SPDY/3 frames to and from bytes, as far as Kubernetes clients use them. No I/O.

Clients open streams with headers and send data on them; the server replies and sends data back.
Nobody uses windows, priorities or settings: such frames are read and passed over.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from kilonova.local.streaming.spdywords import DICTIONARY
from kilonova.local.streaming.wire import ProtocolError

_VERSION = 3
_CONTROL = 0x80000000
_STREAM = 0x7FFFFFFF
_FIN = 0x01
_HEAD_BYTES = 8
_CONTROL_LIMIT = 64 << 10
_HEADERS_LIMIT = 256 << 10


class _Type(IntEnum):
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class ResetStatus(IntEnum):
    """Why a stream ends before its time."""

    PROTOCOL_ERROR = 1
    INVALID_STREAM = 2
    REFUSED_STREAM = 3
    CANCEL = 5


@dataclass(frozen=True, slots=True)
class Opened:
    """The other side opens a stream; `fin`: it will send nothing on it."""

    stream: int
    headers: Mapping[str, str]
    fin: bool


@dataclass(frozen=True, slots=True)
class Replied:
    """The other side has taken the stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes of a stream; with `fin` the last. A long frame comes in pieces."""

    stream: int
    data: bytes
    fin: bool


@dataclass(frozen=True, slots=True)
class Reset:
    """A stream ends at once, both ways."""

    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    """To be sent back as it is."""

    number: int


@dataclass(frozen=True, slots=True)
class GoAway:
    """The other side opens no more streams."""


Frame = Opened | Replied | Data | Reset | Ping | GoAway


class Decoder:
    """Frames out of bytes that come in any pieces. Keeps less than one control frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._data_left = 0
        self._data_stream = 0
        self._data_fin = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete; raises `ProtocolError`, after which no more."""
        self._buffer += data
        while True:
            if self._data_left:
                if not self._buffer:
                    return
                yield self._piece()
                continue
            if len(self._buffer) < _HEAD_BYTES:
                return
            word, flags_length = struct.unpack_from("!II", self._buffer)
            flags, length = flags_length >> 24, flags_length & 0xFFFFFF
            if not word & _CONTROL:
                del self._buffer[:_HEAD_BYTES]
                self._data_stream, self._data_fin = word, bool(flags & _FIN)
                self._data_left = length
                if not length and self._data_fin:
                    yield Data(word, b"", True)
                continue
            if length > _CONTROL_LIMIT:
                raise ProtocolError(f"a control frame of {length} bytes")
            if len(self._buffer) < _HEAD_BYTES + length:
                return
            payload = bytes(self._buffer[_HEAD_BYTES : _HEAD_BYTES + length])
            del self._buffer[: _HEAD_BYTES + length]
            if (word & _STREAM) >> 16 != _VERSION:
                raise ProtocolError(f"SPDY version {(word & _STREAM) >> 16}")
            frame = self._control(word & 0xFFFF, flags, payload)
            if frame is not None:
                yield frame

    def _piece(self) -> Data:
        data = bytes(self._buffer[: self._data_left])
        del self._buffer[: self._data_left]
        self._data_left -= len(data)
        return Data(self._data_stream, data, self._data_fin and not self._data_left)

    def _control(self, kind: int, flags: int, payload: bytes) -> Frame | None:
        try:
            match kind:
                case _Type.SYN_STREAM:
                    (stream,) = struct.unpack_from("!I", payload)
                    headers = self._headers(payload[10:])
                    return Opened(_named(stream), headers, bool(flags & _FIN))
                case _Type.SYN_REPLY:
                    (stream,) = struct.unpack_from("!I", payload)
                    self._headers(payload[4:])
                    return Replied(_named(stream))
                case _Type.HEADERS:
                    # Of no interest, but they take part in the compression.
                    self._headers(payload[4:])
                    return None
                case _Type.RST_STREAM:
                    stream, _ = struct.unpack("!II", payload)
                    return Reset(_named(stream))
                case _Type.PING:
                    return Ping(*struct.unpack("!I", payload))
                case _Type.GOAWAY:
                    return GoAway()
                case _Type.SETTINGS | _Type.WINDOW_UPDATE:
                    return None
                case _:
                    raise ProtocolError(f"a control frame of type {kind}")
        except struct.error:
            raise ProtocolError(f"a short control frame of type {kind}") from None

    def _headers(self, block: bytes) -> dict[str, str]:
        try:
            text = self._inflate.decompress(block, _HEADERS_LIMIT)
        except zlib.error as error:
            raise ProtocolError(f"headers that cannot be decompressed: {error}") from None
        if self._inflate.unconsumed_tail or self._inflate.eof:
            raise ProtocolError(f"headers of more than {_HEADERS_LIMIT} bytes")
        (count,) = struct.unpack_from("!I", text)
        offset = 4
        headers: dict[str, str] = {}
        for _ in range(count):
            name, offset = _string(text, offset)
            headers[name.lower()], offset = _string(text, offset)
        return headers


class Encoder:
    """Bytes out of frames; one for each connection, as headers are compressed together."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def opened(self, stream: int, headers: Mapping[str, str], *, fin: bool = False) -> bytes:
        payload = struct.pack("!IIH", stream, 0, 0) + self._headers(headers)
        return _control_frame(_Type.SYN_STREAM, payload, _FIN if fin else 0)

    def replied(self, stream: int) -> bytes:
        payload = struct.pack("!I", stream) + self._headers({})
        return _control_frame(_Type.SYN_REPLY, payload)

    def data(self, stream: int, data: bytes, *, fin: bool = False) -> bytes:
        head = struct.pack("!II", stream, (_FIN if fin else 0) << 24 | len(data))
        return head + data

    def reset(self, stream: int, status: ResetStatus) -> bytes:
        return _control_frame(_Type.RST_STREAM, struct.pack("!II", stream, status))

    def ping(self, number: int) -> bytes:
        return _control_frame(_Type.PING, struct.pack("!I", number))

    def go_away(self, last_stream: int) -> bytes:
        return _control_frame(_Type.GOAWAY, struct.pack("!II", last_stream, 0))

    def _headers(self, headers: Mapping[str, str]) -> bytes:
        parts = [struct.pack("!I", len(headers))]
        for text in (text.encode() for pair in headers.items() for text in pair):
            parts += (struct.pack("!I", len(text)), text)
        return self._deflate.compress(b"".join(parts)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def _control_frame(kind: _Type, payload: bytes, flags: int = 0) -> bytes:
    word = _CONTROL | _VERSION << 16 | kind
    return struct.pack("!II", word, flags << 24 | len(payload)) + payload


def _named(stream: int) -> int:
    if not stream & _STREAM:
        raise ProtocolError("a frame for stream 0")
    return stream & _STREAM


def _string(text: bytes, offset: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("!I", text, offset)
    begin, end = offset + 4, offset + 4 + length
    if end > len(text):
        raise ProtocolError("headers that end too soon")
    return text[begin:end].decode("latin-1"), end
