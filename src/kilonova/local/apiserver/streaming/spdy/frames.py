"""Encodes and decodes the SPDY/3 frames that Kubernetes clients use. No I/O.

Clients open streams with headers and send data on them; the server replies and sends data back.
Window, priority and settings frames are not used: they are skipped.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from kilonova.local.apiserver.streaming.byte_stream import ProtocolError
from kilonova.local.apiserver.streaming.spdy.header_dictionary import HEADER_DICTIONARY

_VERSION = 3
_CONTROL_BIT = 0x80000000
_STREAM_ID_MASK = 0x7FFFFFFF
_FIN = 0x01
_HEAD_BYTES = 8
_CONTROL_LIMIT = 64 << 10
_HEADERS_LIMIT = 256 << 10


class _ControlType(IntEnum):
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class ResetStatus(IntEnum):
    """Why a stream is reset."""

    PROTOCOL_ERROR = 1
    INVALID_STREAM = 2
    REFUSED_STREAM = 3
    CANCEL = 5


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """The peer opens a stream; `fin`: it will send no data on it."""

    stream: int
    headers: Mapping[str, str]
    fin: bool


@dataclass(frozen=True, slots=True)
class StreamAccepted:
    """The peer has accepted the stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class StreamData:
    """Bytes of a stream; with `fin` the last. A long frame is returned in pieces."""

    stream: int
    data: bytes
    fin: bool


@dataclass(frozen=True, slots=True)
class StreamReset:
    """A stream is closed at once, both ways."""

    stream: int


@dataclass(frozen=True, slots=True)
class Ping:
    """A ping, to be returned unchanged."""

    number: int


@dataclass(frozen=True, slots=True)
class GoAway:
    """The peer opens no more streams."""


Frame = StreamOpened | StreamAccepted | StreamData | StreamReset | Ping | GoAway


class SpdyDecoder:
    """Decodes frames from bytes in any pieces. Buffers less than one control frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._decompressor = zlib.decompressobj(zdict=HEADER_DICTIONARY)
        self._data_left = 0
        self._data_stream = 0
        self._data_fin = False

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that these bytes complete; raises `ProtocolError`, after which there are no
        more."""
        self._buffer += data
        while True:
            if self._data_left:
                if not self._buffer:
                    return
                yield self._decode_data()
                continue
            if len(self._buffer) < _HEAD_BYTES:
                return
            word, flags_length = struct.unpack_from("!II", self._buffer)
            flags, length = flags_length >> 24, flags_length & 0xFFFFFF
            if not word & _CONTROL_BIT:
                del self._buffer[:_HEAD_BYTES]
                self._data_stream, self._data_fin = word, bool(flags & _FIN)
                self._data_left = length
                if not length and self._data_fin:
                    yield StreamData(word, b"", True)
                continue
            if length > _CONTROL_LIMIT:
                raise ProtocolError(f"a control frame of {length} bytes")
            if len(self._buffer) < _HEAD_BYTES + length:
                return
            payload = bytes(self._buffer[_HEAD_BYTES : _HEAD_BYTES + length])
            del self._buffer[: _HEAD_BYTES + length]
            if (word & _STREAM_ID_MASK) >> 16 != _VERSION:
                raise ProtocolError(f"SPDY version {(word & _STREAM_ID_MASK) >> 16}")
            frame = self._decode_control(word & 0xFFFF, flags, payload)
            if frame is not None:
                yield frame

    def _decode_data(self) -> StreamData:
        data = bytes(self._buffer[: self._data_left])
        del self._buffer[: self._data_left]
        self._data_left -= len(data)
        return StreamData(self._data_stream, data, self._data_fin and not self._data_left)

    def _decode_control(self, kind: int, flags: int, payload: bytes) -> Frame | None:
        try:
            match kind:
                case _ControlType.SYN_STREAM:
                    (stream,) = struct.unpack_from("!I", payload)
                    headers = self._decode_headers(payload[10:])
                    return StreamOpened(_require_stream_id(stream), headers, bool(flags & _FIN))
                case _ControlType.SYN_REPLY:
                    (stream,) = struct.unpack_from("!I", payload)
                    self._decode_headers(payload[4:])
                    return StreamAccepted(_require_stream_id(stream))
                case _ControlType.HEADERS:
                    # Ignored, but they take part in the compression.
                    self._decode_headers(payload[4:])
                    return None
                case _ControlType.RST_STREAM:
                    stream, _ = struct.unpack("!II", payload)
                    return StreamReset(_require_stream_id(stream))
                case _ControlType.PING:
                    return Ping(*struct.unpack("!I", payload))
                case _ControlType.GOAWAY:
                    return GoAway()
                case _ControlType.SETTINGS | _ControlType.WINDOW_UPDATE:
                    return None
                case _:
                    raise ProtocolError(f"a control frame of type {kind}")
        except struct.error:
            raise ProtocolError(f"a short control frame of type {kind}") from None

    def _decode_headers(self, block: bytes) -> dict[str, str]:
        try:
            text = self._decompressor.decompress(block, _HEADERS_LIMIT)
        except zlib.error as error:
            raise ProtocolError(f"headers that cannot be decompressed: {error}") from None
        if self._decompressor.unconsumed_tail or self._decompressor.eof:
            raise ProtocolError(f"headers of more than {_HEADERS_LIMIT} bytes")
        (count,) = struct.unpack_from("!I", text)
        offset = 4
        headers: dict[str, str] = {}
        for _ in range(count):
            name, offset = _read_string(text, offset)
            headers[name.lower()], offset = _read_string(text, offset)
        return headers


class SpdyEncoder:
    """Encodes frames; one per connection, as headers share a compression state."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(zdict=HEADER_DICTIONARY)

    def encode_open(self, stream: int, headers: Mapping[str, str], *, fin: bool = False) -> bytes:
        payload = struct.pack("!IIH", stream, 0, 0) + self._encode_headers(headers)
        return _control_frame(_ControlType.SYN_STREAM, payload, _FIN if fin else 0)

    def encode_reply(self, stream: int) -> bytes:
        payload = struct.pack("!I", stream) + self._encode_headers({})
        return _control_frame(_ControlType.SYN_REPLY, payload)

    def encode_data(self, stream: int, data: bytes, *, fin: bool = False) -> bytes:
        head = struct.pack("!II", stream, (_FIN if fin else 0) << 24 | len(data))
        return head + data

    def encode_reset(self, stream: int, status: ResetStatus) -> bytes:
        return _control_frame(_ControlType.RST_STREAM, struct.pack("!II", stream, status))

    def encode_ping(self, number: int) -> bytes:
        return _control_frame(_ControlType.PING, struct.pack("!I", number))

    def encode_go_away(self, last_stream: int) -> bytes:
        return _control_frame(_ControlType.GOAWAY, struct.pack("!II", last_stream, 0))

    def _encode_headers(self, headers: Mapping[str, str]) -> bytes:
        parts = [struct.pack("!I", len(headers))]
        for text in (text.encode() for pair in headers.items() for text in pair):
            parts += (struct.pack("!I", len(text)), text)
        return self._compressor.compress(b"".join(parts)) + self._compressor.flush(
            zlib.Z_SYNC_FLUSH
        )


def _control_frame(kind: _ControlType, payload: bytes, flags: int = 0) -> bytes:
    word = _CONTROL_BIT | _VERSION << 16 | kind
    return struct.pack("!II", word, flags << 24 | len(payload)) + payload


def _require_stream_id(stream: int) -> int:
    if not stream & _STREAM_ID_MASK:
        raise ProtocolError("a frame for stream 0")
    return stream & _STREAM_ID_MASK


def _read_string(text: bytes, offset: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("!I", text, offset)
    begin, end = offset + 4, offset + 4 + length
    if end > len(text):
        raise ProtocolError("headers that end too soon")
    return text[begin:end].decode("latin-1"), end
