"""HTTP/1.1 servers that answer as a script says, byte for byte."""

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from kilonova.serving.loadtest.targets.address import Address


@dataclass
class Received:
    """A request."""

    number: int
    """From 0, in order of arrival."""
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[Received], AsyncIterator[bytes]]
"""The bytes of an answer, in pieces; an empty piece closes the connection."""


@dataclass
class ScriptedServer:
    """A running server, and what it got."""

    address: Address
    received: list[Received] = field(default_factory=list[Received])
    connections: int = 0


def build_answer(
    body: bytes, status: int = 200, kind: str = "application/json", close: bool = False
) -> bytes:
    """An answer with its length."""
    closing = "connection: close\r\n" if close else ""
    head = f"HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\n{closing}content-length: {len(body)}"
    return f"{head}\r\n\r\n".encode() + body


def build_chunk(data: bytes) -> bytes:
    """A chunk of an answer with `transfer-encoding: chunked`."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)


@asynccontextmanager
async def serve(answer: Answer) -> AsyncGenerator[ScriptedServer]:
    """Serve on a loopback port."""
    served = ScriptedServer(Address("http", "127.0.0.1", 0))

    tasks: set[asyncio.Task[None] | None] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        served.connections += 1
        ends = contextlib.suppress(OSError, EOFError, asyncio.CancelledError)
        with ends, contextlib.closing(writer):
            while True:
                request = await _read_request(reader)
                request.number = len(served.received)
                served.received.append(request)
                async for piece in answer(request):
                    if not piece:
                        return
                    writer.write(piece)
                    await writer.drain()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    served.address = Address("http", "127.0.0.1", port)
    try:
        yield served
    finally:
        server.close()
        for task in filter(None, tasks):
            task.cancel()
            await task


async def _read_request(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    method, path = head.split(" ", 2)[:2]
    headers = {name.lower(): value for name, value in re.findall(r"(\S+): (.*)\r\n", head)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(0, method, path, headers, body)
