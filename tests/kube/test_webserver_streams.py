"""Answers that go on: sent as they come, ended with the client or the server."""

import asyncio
import time
from collections.abc import AsyncGenerator

import aiohttp
import pytest

from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.kube.webserver import WebServer
from tests.kube.test_health_and_metrics import serving


class Source:
    """Endless numbers, one for each that somebody asks for."""

    def __init__(self) -> None:
        self.next = asyncio.Queue[bytes]()
        self.ended = asyncio.Event()

    async def endpoint(self, _: Request) -> StreamReply:
        return StreamReply(200, self._chunks(), {"content-type": "text/plain"})

    async def _chunks(self) -> AsyncGenerator[bytes]:
        try:
            while chunk := await self.next.get():
                yield chunk
        finally:
            self.ended.set()


async def test_chunks_come_when_they_are_there() -> None:
    source = Source()
    server = WebServer("s", {"/numbers": source.endpoint}, host="127.0.0.1", port=0)
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


async def test_a_client_that_is_gone_ends_its_stream() -> None:
    source = Source()
    server = WebServer("s", {"/numbers": source.endpoint}, host="127.0.0.1", port=0)
    async with serving(server) as url, aiohttp.ClientSession(url) as http:
        async with http.get("/numbers") as reply:
            source.next.put_nowait(b"one")
            await reply.content.readany()
        async with asyncio.timeout(10):
            await source.ended.wait()


async def test_an_open_stream_does_not_hold_up_the_stop() -> None:
    source = Source()
    server = WebServer("s", {"/numbers": source.endpoint}, host="127.0.0.1", port=0)
    async with aiohttp.ClientSession() as http:
        async with serving(server) as url:
            reply = await http.get(f"{url}/numbers")
            start = time.monotonic()
            server.stop()
            assert await reply.content.read() == b""
        assert time.monotonic() - start < 5
        assert source.ended.is_set()


async def test_a_stream_that_fails_is_cut_off() -> None:
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


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [("/a", "/a"), ("/b/c", "/b/"), ("/b/c/d", "/"), ("/", "/"), ("/x/y", "/"), ("/a/", "/")],
)
async def test_the_closest_endpoint_answers(path: str, endpoint: str) -> None:
    async def said(place: str) -> Reply:
        return Reply(200, place.encode())

    places = {
        place: (lambda _, place=place: said(place))  # type: ignore[misc]
        for place in ("/a", "/b/", "/")
    }
    server = WebServer("s", places, host="127.0.0.1", port=0)
    async with serving(server) as url, aiohttp.ClientSession(url) as http, http.get(path) as reply:
        assert await reply.text() == endpoint
