"""The one call of gRPC's health protocol, in the few bytes of HTTP/2 that it takes.

Answers are read, headers are not: a server that refuses the call is told from one that answers it,
and nothing more.
"""

import asyncio
import struct

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_END_STREAM, _ACK, _END_HEADERS, _PADDED = 1, 1, 4, 8
_LONGEST = 16384
_STREAM = 1

STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")


class CallRefused(Exception):
    """There was a server, and it did not answer the call."""


async def health_status(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, service: str
) -> str:
    """What the server says of a service: one of `STATUSES`."""
    writer.write(_PREFACE + _frame(_SETTINGS, 0, 0, b"") + _request(host, service))
    await writer.drain()
    answer = b""
    try:
        while True:
            kind, flags, body = await _next_frame(reader)
            if kind == _SETTINGS and not flags & _ACK:
                writer.write(_frame(_SETTINGS, _ACK, 0, b""))
            elif kind == _PING and not flags & _ACK:
                writer.write(_frame(_PING, _ACK, 0, body))
            elif kind in (_RESET, _GOAWAY):
                raise CallRefused("the server ended the call")
            elif kind == _DATA:
                answer += body[1 : len(body) - body[0]] if flags & _PADDED else body
            if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
                return _status_in(answer)
    except asyncio.IncompleteReadError:
        raise CallRefused("the server closed the connection") from None


def _request(host: str, service: str) -> bytes:
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/grpc.health.v1.Health/Check",
        ":authority": host,
        "content-type": "application/grpc",
        "user-agent": "kube-probe/1.36",
        "te": "trailers",
    }
    block = b"".join(b"\x00" + _text(name) + _text(value) for name, value in headers.items())
    name = service.encode()
    message = b"\x0a" + _varint(len(name)) + name if name else b""
    body = b"\x00" + struct.pack(">I", len(message)) + message
    return _frame(_HEADERS, _END_HEADERS, _STREAM, block) + _frame(
        _DATA, _END_STREAM, _STREAM, body
    )


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return (
        struct.pack(">I", len(body))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + body
    )


async def _next_frame(reader: asyncio.StreamReader) -> tuple[int, int, bytes]:
    head = await reader.readexactly(9)
    length = int.from_bytes(head[:3])
    if length > _LONGEST:
        raise CallRefused("the server does not speak HTTP/2")
    return head[3], head[4], await reader.readexactly(length)


def _status_in(answer: bytes) -> str:
    if len(answer) < 5:
        raise CallRefused("the server has no answer for this service")
    message = answer[5:]
    number = message[1] if len(message) >= 2 and message[0] == 0x08 else 0
    return STATUSES[number] if number < len(STATUSES) else str(number)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _varint_7(len(encoded)) + encoded


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


def _varint_7(number: int) -> bytes:
    """A length as HPACK has it, without compression."""
    return bytes((number,)) if number < 127 else b"\x7f" + _varint(number - 127)
