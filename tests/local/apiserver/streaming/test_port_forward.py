"""`kubectl port-forward`: SPDY inside a WebSocket, or on the socket itself."""

import asyncio
import hashlib
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.local.apiserver.streaming.streaming_cluster import StreamingCluster

pytestmark = pytest.mark.usefixtures("kubectl_path")

OVER = {
    "websocket": {"KUBECTL_PORT_FORWARD_WEBSOCKETS": "true"},
    "spdy": {"KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"},
}
BIG = 50 << 20

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(params=OVER)
def env(request: pytest.FixtureRequest) -> dict[str, str]:
    return OVER[request.param]


@asynccontextmanager
async def _listening(serve: Serve) -> AsyncGenerator[int]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def _digest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Respond only when the client has closed its side."""
    digest = hashlib.sha256()
    while data := await reader.read(65536):
        digest.update(data)
    writer.write(digest.hexdigest().encode())
    writer.close()


async def test_concurrent_forwarded_connections(
    streaming_cluster: StreamingCluster, env: dict[str, str]
) -> None:
    await streaming_cluster.pod("web")

    async def talk(port: int, number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for turn in range(20):
            text = f"{number} {turn}\n".encode() * 100
            writer.write(text)
            assert await reader.readexactly(len(text)) == text
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()

    async with (
        _listening(_echo) as remote,
        streaming_cluster.forwarded("web", f":{remote}", env=env) as port,
    ):
        async with asyncio.timeout(60):
            await asyncio.gather(*(talk(port, number) for number in range(12)))


async def test_large_upload_and_half_close(
    streaming_cluster: StreamingCluster, env: dict[str, str]
) -> None:
    await streaming_cluster.pod("web")
    sent = os.urandom(1 << 20) * (BIG >> 20)
    async with (
        _listening(_digest) as remote,
        streaming_cluster.forwarded("web", f":{remote}", env=env) as port,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(120):
            writer.write(sent)
            await writer.drain()
            writer.write_eof()
            assert await reader.read() == hashlib.sha256(sent).hexdigest().encode()
        writer.close()


async def test_large_download(streaming_cluster: StreamingCluster, env: dict[str, str]) -> None:
    await streaming_cluster.pod("web")
    sent = os.urandom(1 << 20) * (BIG >> 20)

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()
        writer.close()

    async with (
        _listening(pour) as remote,
        streaming_cluster.forwarded("web", f":{remote}", env=env) as port,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        digest = hashlib.sha256()
        async with asyncio.timeout(120):
            while data := await reader.read(1 << 20):
                digest.update(data)
        assert digest.digest() == hashlib.sha256(sent).digest()
        writer.close()


async def test_port_without_a_listener(
    streaming_cluster: StreamingCluster, env: dict[str, str]
) -> None:
    await streaming_cluster.pod("web")
    async with _listening(_echo) as remote:
        free = remote
    client = await streaming_cluster.start("port-forward", "web", f":{free}", env=env)
    line = await client.stdout.readline()
    port = int(line.split(b":")[1].split()[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(30):
        assert await reader.read() == b""
        reported = (await client.stderr.readline()).decode()
    writer.close()
    assert f"an error occurred forwarding {port} -> {free}: error forwarding port" in reported
    assert f"dial tcp4 127.0.0.1:{free}: connect: connection refused" in reported


async def test_forwarded_connections_end_when_the_client_is_killed(
    streaming_cluster: StreamingCluster, env: dict[str, str]
) -> None:
    await streaming_cluster.pod("web")
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\n")
        await reader.read()
        ended.set()
        writer.close()

    async with (
        _listening(serve) as remote,
        streaming_cluster.forwarded("web", f":{remote}", env=env) as port,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.readline() == b"hello\n"
        streaming_cluster.clients[-1].kill()
        async with asyncio.timeout(30):
            await ended.wait()
        writer.close()


async def test_server_stop_closes_forwarded_connections(
    streaming_cluster: StreamingCluster, env: dict[str, str]
) -> None:
    await streaming_cluster.pod("web")
    async with (
        _listening(_echo) as remote,
        streaming_cluster.forwarded("web", f":{remote}", env=env) as port,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"hello\n")
        assert await reader.readline() == b"hello\n"
        async with asyncio.timeout(20):
            await streaming_cluster.cluster.stop()
            assert await reader.read() == b""
        writer.close()
