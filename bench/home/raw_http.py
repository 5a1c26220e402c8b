"""A minimal HTTP/1.1 client, so that the load generator is not the bottleneck.

A request is encoded once and sent repeatedly; of a response only the status and the end are parsed.
One request at a time per connection, one event loop.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from tests.harness.access import ServerAccess

_END_OF_HEAD = b"\r\n\r\n"
_END_OF_CHUNKS = b"\r\n0\r\n\r\n"


class RequestRejected(RuntimeError):
    """A server rejected a request of a benchmark."""


def encode_request(
    method: str, path: str, body: bytes = b"", content_type: str = "application/json"
) -> bytes:
    """A request as bytes."""
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", "user-agent: bench/1"]
    lines.append("accept: application/json")
    if body:
        lines += [f"content-type: {content_type}", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Connection(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._response: asyncio.Future[bytes] | None = None

    async def send(self, data: bytes) -> bytes:
        """Send a request and return the response with its head; raises unless it is a success."""
        assert self._transport is not None
        self._response = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        response = await self._response
        if not response.startswith(b"HTTP/1.1 20"):
            raise RequestRejected(response.decode(errors="replace"))
        return response

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received = self._received + data if self._received else data
        if is_complete(self._received) and self._response is not None:
            self._response.set_result(self._received)
            self._received = b""

    def connection_lost(self, exc: Exception | None) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(
                exc or ConnectionResetError("the server closed the connection")
            )


def is_complete(response: bytes) -> bool:
    """Whether a response is complete."""
    end = response.find(_END_OF_HEAD)
    if end < 0:
        return False
    head = response[:end].lower()
    start = head.find(b"\r\ncontent-length:")
    if start < 0:
        # JSON contains no bare carriage return, so this can only be the last chunk.
        return response.endswith(_END_OF_CHUNKS)
    size = int(head[start + 17 :].partition(b"\r\n")[0])
    return len(response) == end + len(_END_OF_HEAD) + size


@asynccontextmanager
async def open_connections(
    access: ServerAccess, count: int
) -> AsyncGenerator[Sequence[Connection]]:
    """So many open connections with the administrator's certificate."""
    loop = asyncio.get_running_loop()
    context = access.ssl_context()
    opened: list[Connection] = []
    try:
        for _ in range(count):
            _, connection = await loop.create_connection(
                Connection, access.host, access.port, ssl=context
            )
            opened.append(connection)
        yield opened
    finally:
        for connection in opened:
            connection.close()
