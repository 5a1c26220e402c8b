"""A minimal client for the Check method of the gRPC health protocol over HTTP/2.

Response messages are decoded, headers are not: a rejected call is distinguished from an answered
one, and nothing more.
"""

import asyncio
import struct

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 1, 1, 4, 8
_MAX_FRAME_SIZE = 16384
_STREAM = 1

STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")


class GrpcCallError(Exception):
    """The server was reached and did not answer the call."""


async def check_health(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, service: str
) -> str:
    """The status of a service: one of `STATUSES`."""
    writer.write(_PREFACE + _build_frame(_SETTINGS, 0, 0, b"") + _build_request(host, service))
    await writer.drain()
    answer = b""
    try:
        while True:
            kind, flags, body = await _read_frame(reader)
            if kind == _SETTINGS and not flags & _ACK:
                writer.write(_build_frame(_SETTINGS, _ACK, 0, b""))
            elif kind == _PING and not flags & _ACK:
                writer.write(_build_frame(_PING, _ACK, 0, body))
            elif kind in (_RESET, _GOAWAY):
                raise GrpcCallError("the server ended the call")
            elif kind == _DATA:
                answer += body[1 : len(body) - body[0]] if flags & _PADDED else body
            if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
                return _parse_status(answer)
    except asyncio.IncompleteReadError:
        raise GrpcCallError("the server closed the connection") from None


def _build_request(host: str, service: str) -> bytes:
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/grpc.health.v1.Health/Check",
        ":authority": host,
        "content-type": "application/grpc",
        "user-agent": "kube-probe/1.36",
        "te": "trailers",
    }
    block = b"".join(
        b"\x00" + _encode_hpack_string(name) + _encode_hpack_string(value)
        for name, value in headers.items()
    )
    name = service.encode()
    message = b"\x0a" + _encode_varint(len(name)) + name if name else b""
    body = b"\x00" + struct.pack(">I", len(message)) + message
    return _build_frame(_HEADERS, _END_HEADERS, _STREAM, block) + _build_frame(
        _DATA, _END_STREAM, _STREAM, body
    )


def _build_frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return (
        struct.pack(">I", len(body))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + body
    )


async def _read_frame(reader: asyncio.StreamReader) -> tuple[int, int, bytes]:
    head = await reader.readexactly(9)
    length = int.from_bytes(head[:3])
    if length > _MAX_FRAME_SIZE:
        raise GrpcCallError("the server does not speak HTTP/2")
    return head[3], head[4], await reader.readexactly(length)


def _parse_status(answer: bytes) -> str:
    if len(answer) < 5:
        raise GrpcCallError("the server has no answer for this service")
    message = answer[5:]
    number = message[1] if len(message) >= 2 and message[0] == 0x08 else 0
    return STATUSES[number] if number < len(STATUSES) else str(number)


def _encode_hpack_string(text: str) -> bytes:
    encoded = text.encode()
    return _encode_hpack_length(len(encoded)) + encoded


def _encode_varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


def _encode_hpack_length(number: int) -> bytes:
    """A length in HPACK encoding, without compression."""
    return bytes((number,)) if number < 127 else b"\x7f" + _encode_varint(number - 127)
