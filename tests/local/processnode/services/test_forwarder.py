"""A service listener on real sockets: streams, half-closed connections, backpressure, resets."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from kilonova.local.processnode.network.routes import Backend, ServiceRoute
from kilonova.local.processnode.services.proxy.forwarder import ServiceForwarder

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def route(*backends: Backend) -> ServiceRoute:
    return ServiceRoute("10.96.0.9", 80, "TCP", backends)


@asynccontextmanager
async def forwarder(serve: Serve | None) -> AsyncGenerator[tuple[ServiceForwarder, int]]:
    """A forwarder before a server; without one, the backend does not listen."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0) if serve else None
    port = server.sockets[0].getsockname()[1] if server else free_port()
    made, at = ServiceForwarder(route(Backend("127.0.0.1", port))), free_port()
    await made.listen("127.0.0.1", at)
    try:
        yield made, at
    finally:
        made.abort()
        if server:
            server.close()


async def echo_upper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers only after the end of the request, so that half-closing has to work."""
    data = await reader.read()
    writer.write(data.upper())
    writer.close()


async def test_answer_comes_after_the_end_of_the_question() -> None:
    async with forwarder(echo_upper) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello" * 200_000)
        writer.write_eof()
        assert await reader.read() == b"HELLO" * 200_000
        writer.close()


async def test_client_that_does_not_read_slows_the_server_down() -> None:
    written = 0

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        while True:
            writer.write(bytes(65536))
            await writer.drain()
            written += 65536

    async with forwarder(flood) as (_, port):
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        before = -1
        async with asyncio.timeout(20):
            while written != before:
                before = written
                await asyncio.sleep(0.3)
        assert written < 64 * 2**20
        writer.transport.abort()


async def test_connection_is_reset_if_the_backend_does_not_listen() -> None:
    async with forwarder(None) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()


async def test_connection_is_reset_without_ready_backends() -> None:
    async with forwarder(echo_upper) as (opened, port):
        opened.route = route()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()


async def test_server_is_reset_when_its_client_is() -> None:
    ended: asyncio.Future[type[BaseException] | None] = asyncio.Future()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b".")
        try:
            await reader.read()
        except ConnectionResetError as error:
            ended.set_result(type(error))
        else:
            ended.set_result(None)
        writer.close()

    async with forwarder(wait) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await reader.readexactly(1)
        writer.transport.abort()
        async with asyncio.timeout(10):
            await ended


async def test_connections_survive_close_and_end_on_abort() -> None:
    async with forwarder(echo_upper) as (opened, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        other_reader, other = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(0)
        opened.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"still here")
        writer.write_eof()
        assert await reader.read() == b"STILL HERE"
        opened.abort()
        with pytest.raises(ConnectionResetError):
            await other_reader.read()
        writer.close()
        other.close()


async def test_new_connections_follow_the_route() -> None:
    async def second(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"second")
        writer.close()

    server = await asyncio.start_server(second, "127.0.0.1", 0)
    async with server, forwarder(echo_upper) as (opened, port):
        opened.route = route(Backend("127.0.0.1", server.sockets[0].getsockname()[1]))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b"second"
        writer.close()
