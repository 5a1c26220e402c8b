"""Port-forward: connections to a pod's ports, each a pair of streams of one SPDY connection.

For each connection, a client opens an error stream and a data stream with the port and the same
request id. Errors are sent on the error stream.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apiserver.streaming.byte_stream import READ_BYTES
from kilonova.local.apiserver.streaming.spdy.connection import SpdyConnection, SpdyStream
from kilonova.local.apiserver.streaming.spdy.frames import ResetStatus

PORTFORWARD = "portforward.k8s.io"

DialPort = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""A connection to a port of the pod."""


@dataclass(frozen=True, slots=True)
class PortForwardTarget:
    """The pod that connections are forwarded to."""

    name: str
    uid: str
    dial: DialPort

    def error_message(self, port: int, error: Exception) -> str:
        """The message to the client about a failed connection."""
        reason = error.message if isinstance(error, ApiError) else str(error)
        if isinstance(error, ConnectionRefusedError):
            reason = f"dial tcp4 127.0.0.1:{port}: connect: connection refused"
        return f"error forwarding port {port} to pod {self.name}, uid {self.uid}: {reason}"


async def forward_ports(connection: SpdyConnection, pod: PortForwardTarget) -> None:
    """Serve every pair of streams until the client disconnects."""
    waiting: dict[str, dict[str, SpdyStream]] = {}
    forwards: set[asyncio.Task[None]] = set()
    try:
        async for stream in connection.accept_streams():
            request, kind = stream.headers.get("requestid", ""), _stream_type(stream)
            pair = waiting.setdefault(request, {})
            if not kind or kind in pair:
                await stream.reset(ResetStatus.PROTOCOL_ERROR)
                continue
            pair[kind] = stream
            if len(pair) == 2:
                del waiting[request]
                task = asyncio.create_task(_forward_stream_pair(pair["data"], pair["error"], pod))
                forwards.add(task)
                task.add_done_callback(forwards.discard)
    finally:
        for task in forwards:
            task.cancel()
        await asyncio.gather(*forwards, return_exceptions=True)


def _stream_type(stream: SpdyStream) -> str:
    """`error` or `data`; empty for any other stream, or one without a port."""
    kind, port = stream.headers.get("streamtype", ""), stream.headers.get("port", "")
    is_number = port.isascii() and port.isdecimal() and len(port) <= 5
    is_port = is_number and 0 < int(port) <= 0xFFFF
    return kind if kind in ("error", "data") and is_port else ""


async def _forward_stream_pair(data: SpdyStream, error: SpdyStream, pod: PortForwardTarget) -> None:
    port = int(data.headers["port"])
    with contextlib.suppress(OSError):  # of the client's connection: the session ends anyway
        try:
            reader, writer = await pod.dial(port)
            await _copy_both_ways(data, reader, writer)
        except (ApiError, OSError) as problem:
            await error.write(pod.error_message(port, problem).encode())
        await data.close_write()
        await error.close_write()


async def _copy_both_ways(
    stream: SpdyStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Copy both ways until the pod closes its side. A client may close its side earlier."""
    sending = asyncio.create_task(_copy_to_pod(stream, writer))
    try:
        while data := await reader.read(READ_BYTES):
            await stream.write(data)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()


async def _copy_to_pod(stream: SpdyStream, writer: asyncio.StreamWriter) -> None:
    while data := await stream.read():
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
