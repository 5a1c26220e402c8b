"""Limits on the size and time of what a client may send before it is authenticated."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from kilonova.kube.client.transport import Reply, Request
from kilonova.kube.serving import bounded_connection
from kilonova.kube.serving.web_server import WebServer
from tests.kube.serving.test_health_and_metrics import serving

HEAD = b"POST /thing HTTP/1.1\r\nHost: localhost\r\n"


@contextlib.asynccontextmanager
async def open_connection() -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a server that returns the size of the body it received."""

    async def endpoint(request: Request) -> Reply:
        return Reply(200, str(len(request.body)).encode())

    server = WebServer("s", {"/thing": endpoint}, host="127.0.0.1", port=0, body_limit=1 << 24)
    async with serving(server) as url, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        yield reader, writer
        writer.close()


async def send_until_closed(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, start: bytes
) -> bytes:
    """Send until the server closes, or up to ten times the limit; returns its response."""
    with contextlib.suppress(ConnectionError):
        writer.write(start)
        for _ in range(10 * bounded_connection.HEAD_LIMIT // 65536):
            writer.write(b"x" * 65536)
            await writer.drain()
        return b"it took everything"
    with contextlib.suppress(ConnectionError):
        return await reader.read()
    return b""


async def test_endless_head_is_rejected() -> None:
    async with open_connection() as (reader, writer):
        response = await send_until_closed(reader, writer, HEAD + b"X-Filler: ")
        # A client that still sends when the connection is closed may lose the response.
        assert not response or response.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("end", [b"0\r\nX-Filler: ", b"1;"], ids=["trailer", "extension"])
async def test_oversized_trailers_and_chunk_sizes_are_rejected(end: bytes) -> None:
    async with open_connection() as (reader, writer):
        start = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + end
        assert await send_until_closed(reader, writer, start) == b""


async def test_request_with_an_incomplete_body_is_discarded() -> None:
    received = asyncio.Queue[bytes]()

    async def endpoint(request: Request) -> Reply:
        received.put_nowait(request.body)
        return Reply(200)

    server = WebServer("s", {"/thing": endpoint}, host="127.0.0.1", port=0)
    async with serving(server) as url, asyncio.timeout(20):
        for body in (b"half", b"complete"):
            _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            writer.write(HEAD + b"Content-Length: 8\r\n\r\n" + body)
            writer.write_eof()
            await writer.drain()
            writer.close()
            await writer.wait_closed()
        assert await received.get() == b"complete"
    assert received.empty()


async def test_body_may_exceed_the_head_limit() -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    count = 3 * bounded_connection.HEAD_LIMIT // 0x10000
    async with open_connection() as (reader, writer):
        for _ in range(2):  # on the same connection
            writer.write(
                HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * count + b"0\r\n\r\n"
            )
            response = await reader.readuntil(b"\r\n\r\n")
            assert response.startswith(b"HTTP/1.1 200 ")
            received = str(3 * bounded_connection.HEAD_LIMIT).encode()
            assert await reader.readexactly(len(received)) == received


async def test_slow_request_head_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_connection, "HEAD_SECONDS", 0.1)
    async with open_connection() as (reader, writer):
        writer.write(HEAD)
        assert await reader.read() == b""


async def test_protocol_upgrade_is_not_supported(caplog: pytest.LogCaptureFixture) -> None:
    async with open_connection() as (reader, writer):
        writer.write(HEAD + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    assert not caplog.records


async def test_oldest_of_too_many_pending_heads_is_aborted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounded_connection, "MAX_PENDING_HEADS", 3)
    async with open_connection() as (reader, writer):
        writer.write(HEAD)
        await writer.drain()
        address = writer.get_extra_info("peername")
        others = [await asyncio.open_connection(*address) for _ in range(3)]
        for _, other in others:
            other.write(HEAD)
        assert await reader.read() == b""
        for its_reader, other in others:
            other.write(b"Content-Length: 0\r\n\r\n")
            assert (await its_reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
        # Idle connections after a request do not count.
        more = [await asyncio.open_connection(*address) for _ in range(3)]
        for its_reader, other in more:
            other.write(HEAD + b"Content-Length: 0\r\n\r\n")
            assert (await its_reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
        for _, other in [*others, *more]:
            other.close()
