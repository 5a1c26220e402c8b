"""Port-forward: connections to a pod's ports, each a pair of streams of one SPDY connection.

A client opens, for each connection that it got, an error stream and a data stream that name the
port and carry the same request number. What goes wrong is told on the error stream.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kilonova.local.errors import ApiError
from kilonova.local.streaming.spdy import ResetStatus
from kilonova.local.streaming.spdystreams import SpdyConnection, SpdyStream
from kilonova.local.streaming.wire import READ_BYTES

PORTFORWARD = "portforward.k8s.io"

Dial = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""A connection to a port of the pod."""


@dataclass(frozen=True, slots=True)
class ForwardedPod:
    """Where connections go."""

    name: str
    uid: str
    dial: Dial

    def complaint(self, port: int, error: Exception) -> str:
        """What a client is told of a connection that failed."""
        reason = error.message if isinstance(error, ApiError) else str(error)
        if isinstance(error, ConnectionRefusedError):
            reason = f"dial tcp4 127.0.0.1:{port}: connect: connection refused"
        return f"error forwarding port {port} to pod {self.name}, uid {self.uid}: {reason}"


async def forward_ports(connection: SpdyConnection, pod: ForwardedPod) -> None:
    """Serve every pair of streams until the client has gone."""
    waiting: dict[str, dict[str, SpdyStream]] = {}
    forwards: set[asyncio.Task[None]] = set()
    try:
        async for stream in connection.opened():
            request, kind = stream.headers.get("requestid", ""), _kind(stream)
            pair = waiting.setdefault(request, {})
            if not kind or kind in pair:
                await stream.reset(ResetStatus.PROTOCOL_ERROR)
                continue
            pair[kind] = stream
            if len(pair) == 2:
                del waiting[request]
                task = asyncio.create_task(_forward(pair["data"], pair["error"], pod))
                forwards.add(task)
                task.add_done_callback(forwards.discard)
    finally:
        for task in forwards:
            task.cancel()
        await asyncio.gather(*forwards, return_exceptions=True)


def _kind(stream: SpdyStream) -> str:
    """`error` or `data`; nothing for a stream that is neither, or names no port."""
    kind, port = stream.headers.get("streamtype", ""), stream.headers.get("port", "")
    is_number = port.isascii() and port.isdecimal() and len(port) <= 5
    is_port = is_number and 0 < int(port) <= 0xFFFF
    return kind if kind in ("error", "data") and is_port else ""


async def _forward(data: SpdyStream, error: SpdyStream, pod: ForwardedPod) -> None:
    port = int(data.headers["port"])
    with contextlib.suppress(OSError):  # of the client's wire: then all is over anyway
        try:
            reader, writer = await pod.dial(port)
            await _copy(data, reader, writer)
        except (ApiError, OSError) as problem:
            await error.write(pod.complaint(port, problem).encode())
        await data.finish()
        await error.finish()


async def _copy(
    stream: SpdyStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Both ways, until the pod has said all. A client may end its half before."""
    sending = asyncio.create_task(_send(stream, writer))
    try:
        while data := await reader.read(READ_BYTES):
            await stream.write(data)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()


async def _send(stream: SpdyStream, writer: asyncio.StreamWriter) -> None:
    while data := await stream.read():
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
