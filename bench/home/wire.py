"""HTTP/1.1 as raw as it gets, so that the load generator is not what is measured.

A request is made once as bytes and sent as often as wanted; of an answer, only the status
and the end are looked for. One request at a time per connection, one event loop.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from tests.harness.access import Access

_END_OF_HEAD = b"\r\n\r\n"
_END_OF_CHUNKS = b"\r\n0\r\n\r\n"


class RequestRefused(RuntimeError):
    """A server did not answer a request of a benchmark with success."""


def request(
    method: str, path: str, body: bytes = b"", content_type: str = "application/json"
) -> bytes:
    """A request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", "host: localhost", "user-agent: bench/1"]
    lines.append("accept: application/json")
    if body:
        lines += [f"content-type: {content_type}", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Connection(asyncio.Protocol):
    """One connection; `ask` is called again only when it has returned."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._answer: asyncio.Future[bytes] | None = None

    async def ask(self, data: bytes) -> bytes:
        """Send a request and return the answer, head and all; it must be a success."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(data)
        answer = await self._answer
        if not answer.startswith(b"HTTP/1.1 20"):
            raise RequestRefused(answer.decode(errors="replace"))
        return answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received = self._received + data if self._received else data
        if is_complete(self._received) and self._answer is not None:
            self._answer.set_result(self._received)
            self._received = b""

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError("the server hung up"))


def is_complete(answer: bytes) -> bool:
    """Whether all of an answer is here."""
    end = answer.find(_END_OF_HEAD)
    if end < 0:
        return False
    head = answer[:end].lower()
    start = head.find(b"\r\ncontent-length:")
    if start < 0:
        # JSON has no bare carriage return, so that this can only be the last chunk.
        return answer.endswith(_END_OF_CHUNKS)
    size = int(head[start + 17 :].partition(b"\r\n")[0])
    return len(answer) == end + len(_END_OF_HEAD) + size


@asynccontextmanager
async def connections(access: Access, count: int) -> AsyncGenerator[Sequence[Connection]]:
    """That many open connections of the administrator."""
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
