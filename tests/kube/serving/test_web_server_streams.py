"""Streamed responses: sent as they arrive, ended with the client or the server."""

import asyncio
from collections.abc import AsyncGenerator

import aiohttp
import pytest

from kilonova.kube.client.transport import Request, StreamReply
from kilonova.kube.serving.web_server import WebServer
from tests.kube.serving.test_health_and_metrics import serving


class ChunkSource:
    """An endless stream of numbers, one for each request of the test."""

    def __init__(self) -> None:
        self.next = asyncio.Queue[bytes]()
        self.ended = asyncio.Event()

    async def handle(self, _: Request) -> StreamReply:
        return StreamReply(200, self._chunks(), {"content-type": "text/plain"})

    async def _chunks(self) -> AsyncGenerator[bytes]:
        try:
            while chunk := await self.next.get():
                yield chunk
        finally:
            self.ended.set()


async def test_chunks_are_sent_as_they_arrive() -> None:
    source = ChunkSource()
    server = WebServer("s", {"/numbers": source.handle}, host="127.0.0.1", port=0)
    async with (
        serving(server) as url,
        aiohttp.ClientSession(url) as http,
        http.get("/numbers") as reply,
    ):
        for chunk in (b"one", b"two"):
            source.next.put_nowait(chunk)
            assert await reply.content.readany() == chunk
        source.next.put_nowait(b"")
        assert await reply.content.read() == b""


async def test_disconnected_client_ends_its_stream() -> None:
    source = ChunkSource()
    server = WebServer("s", {"/numbers": source.handle}, host="127.0.0.1", port=0)
    async with serving(server) as url, aiohttp.ClientSession(url) as http:
        async with http.get("/numbers") as reply:
            source.next.put_nowait(b"one")
            await reply.content.readany()
        async with asyncio.timeout(10):
            await source.ended.wait()


async def test_open_stream_does_not_block_the_stop() -> None:
    source = ChunkSource()
    server = WebServer("s", {"/numbers": source.handle}, host="127.0.0.1", port=0, grace=120)
    async with aiohttp.ClientSession() as http:
        # Half of the grace period, for the end of the server as well.
        async with asyncio.timeout(60), serving(server) as url:
            reply = await http.get(f"{url}/numbers")
            server.stop()
            assert await reply.content.read() == b""
        assert source.ended.is_set()


async def test_failing_stream_is_truncated() -> None:
    async def broken() -> AsyncGenerator[bytes]:
        yield b"so far"
        raise RuntimeError("no more")

    async def endpoint(_: Request) -> StreamReply:
        return StreamReply(200, broken())

    server = WebServer("s", {"/": endpoint}, host="127.0.0.1", port=0)
    async with (
        serving(server) as url,
        aiohttp.ClientSession(url) as http,
        http.get("/anything") as reply,
    ):
        assert await reply.content.readany() == b"so far"
        with pytest.raises(aiohttp.ClientPayloadError):
            await reply.content.read()
