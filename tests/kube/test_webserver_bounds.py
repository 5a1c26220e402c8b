"""What somebody may send before anybody asks who they are: so much, and for so long."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import pytest

from kilonova.kube import connection
from kilonova.kube.transport import Reply, Request
from kilonova.kube.webserver import WebServer
from tests.kube.test_health_and_metrics import serving

HEAD = b"POST /thing HTTP/1.1\r\nHost: localhost\r\n"


@contextlib.asynccontextmanager
async def connected() -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a server that says how much it was sent."""

    async def endpoint(request: Request) -> Reply:
        return Reply(200, str(len(request.body)).encode())

    server = WebServer("s", {"/thing": endpoint}, host="127.0.0.1", port=0, body_limit=1 << 24)
    async with serving(server) as url, asyncio.timeout(20):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        yield reader, writer
        writer.close()


async def sent_without_end(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, start: bytes
) -> bytes:
    """Go on until the server has had enough, or ten times as much as it should take; its answer."""
    with contextlib.suppress(ConnectionError):
        writer.write(start)
        for _ in range(10 * connection.HEAD_LIMIT // 65536):
            writer.write(b"x" * 65536)
            await writer.drain()
        return b"it took everything"
    with contextlib.suppress(ConnectionError):
        return await reader.read()
    return b""


async def test_a_head_without_end_is_cut_off() -> None:
    async with connected() as (reader, writer):
        answer = await sent_without_end(reader, writer, HEAD + b"X-Filler: ")
        # Whoever still sends when the connection is closed may lose the answer.
        assert not answer or answer.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("end", [b"0\r\nX-Filler: ", b"1;"], ids=["trailer", "extension"])
async def test_what_comes_after_the_head_and_is_no_body_is_cut_off(end: bytes) -> None:
    async with connected() as (reader, writer):
        start = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + end
        assert await sent_without_end(reader, writer, start) == b""


async def test_a_body_may_be_larger_than_a_head() -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    count = 3 * connection.HEAD_LIMIT // 0x10000
    async with connected() as (reader, writer):
        for _ in range(2):  # on the same connection
            writer.write(
                HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * count + b"0\r\n\r\n"
            )
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 ")
            said = str(3 * connection.HEAD_LIMIT).encode()
            assert await reader.readexactly(len(said)) == said


async def test_a_slow_head_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.1)
    async with connected() as (reader, writer):
        writer.write(HEAD)
        assert await reader.read() == b""


async def test_another_protocol_is_not_spoken(caplog: pytest.LogCaptureFixture) -> None:
    async with connected() as (reader, writer):
        writer.write(HEAD + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    assert not caplog.records


async def test_of_too_many_half_heads_the_oldest_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "AWAITED_HEADS", 3)
    async with connected() as (reader, writer):
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
        # Connections that are idle after a request do not count.
        more = [await asyncio.open_connection(*address) for _ in range(3)]
        for its_reader, other in more:
            other.write(HEAD + b"Content-Length: 0\r\n\r\n")
            assert (await its_reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200 ")
        for _, other in [*others, *more]:
            other.close()
