"""WebSocket clients other than kubectl: version 4, port channels, protocol violations."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

from kilonova.local.kubelet_api import RemoteProcess
from tests.local.apiserver.streaming.local_kubelet import LocalMachineKubelet
from tests.local.apiserver.streaming.streaming_cluster import NODE, StreamingCluster

BASE = "/api/v1/namespaces/default/pods"
HANDSHAKE = (
    "Host: localhost",
    "Connection: keep-alive, Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


class Client:
    """The client's end of a WebSocket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._connection = Connection(ConnectionType.CLIENT)
        self._partial = b""
        self._text = ""
        self._waiting: list[bytes | str | CloseConnection | Pong] = []

    async def send(self, event: BytesMessage | TextMessage | Ping | CloseConnection) -> None:
        self.writer.write(bytes(self._connection.send(event)))
        await self.writer.drain()

    async def next(self) -> bytes | str | CloseConnection | Pong:
        """A complete message, the close of the connection, or a pong."""
        async with asyncio.timeout(20):
            while not self._waiting:
                data = await self.reader.read(65536)
                assert data, "the server went without a word"
                self._connection.receive_data(data)
                for event in self._connection.events():
                    if isinstance(event, BytesMessage):
                        self._partial += bytes(event.data)
                        if event.message_finished:
                            self._waiting.append(self._partial)
                            self._partial = b""
                    elif isinstance(event, TextMessage):
                        self._text += event.data
                        if event.message_finished:
                            self._waiting.append(self._text)
                            self._text = ""
                    elif isinstance(event, CloseConnection | Pong):
                        self._waiting.append(event)
            return self._waiting.pop(0)


@asynccontextmanager
async def connected(
    streaming_cluster: StreamingCluster, path: str, protocol: str = ""
) -> AsyncGenerator[Client]:
    reader, writer = await streaming_cluster.dial()
    lines = [f"GET {BASE}{path} HTTP/1.1", *HANDSHAKE]
    if protocol:
        lines.append(f"Sec-WebSocket-Protocol: {protocol}")
    writer.write("\r\n".join([*lines, "", ""]).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 "), head
    assert b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in head
    try:
        answered = f"sec-websocket-protocol: {protocol.rpartition(' ')[2]}\r\n".encode()
        assert (answered in head) if protocol else (b"sec-websocket-protocol" not in head)
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


async def test_version_4_cannot_close_stdin(
    streaming_cluster: StreamingCluster,
) -> None:
    await streaming_cluster.pod("web")
    path = "/web/exec?command=cat&stdin=true&stdout=true"
    async with connected(streaming_cluster, path, "x, v4.channel.k8s.io") as client:
        assert await client.next() == b"\1"  # it is open
        await client.send(BytesMessage(data=b"\0hello"))
        assert await client.next() == b"\1hello"
        await client.send(Ping(payload=b"?"))
        assert await client.next() == Pong(payload=b"?")
        await client.send(CloseConnection(code=1000))
        assert isinstance(await client.next(), CloseConnection)
    async with asyncio.timeout(20):
        await streaming_cluster.machine.started[-1].detached.wait()


async def test_status_is_the_last_message(streaming_cluster: StreamingCluster) -> None:
    await streaming_cluster.pod("web")
    path = "/web/exec?command=sh&command=-c&command=exit%202&stdout=true"
    async with connected(streaming_cluster, path, "v4.channel.k8s.io") as client:
        assert await client.next() == b"\1"
        last = await client.next()
        assert isinstance(last, bytes)
        assert last[0] == 3
        assert json.loads(last[1:])["details"]["causes"][0]["message"] == "2"
        closed = await client.next()
        assert isinstance(closed, CloseConnection)
        assert closed.code == 1000


async def test_text_messages_are_accepted(streaming_cluster: StreamingCluster) -> None:
    await streaming_cluster.pod("web")
    path = "/web/exec?command=cat&stdin=true&stdout=true"
    async with connected(streaming_cluster, path, "v4.channel.k8s.io") as client:
        assert await client.next() == b"\1"
        await client.send(TextMessage(data="\0grüße"))
        assert await client.next() == "\1grüße".encode()


async def test_invalid_frame_closes_the_connection(streaming_cluster: StreamingCluster) -> None:
    await streaming_cluster.pod("web")
    path = "/web/exec?command=sleep&command=600&stdin=true&stdout=true"
    async with connected(streaming_cluster, path, "v5.channel.k8s.io") as client:
        assert await client.next() == b"\1"
        client.writer.write(b"\x82\x05hello")
        closed = await client.next()
        assert isinstance(closed, CloseConnection)
        assert (closed.code, closed.reason) == (
            1002,
            "server received unexpected unmasked frame",
        )
    async with asyncio.timeout(20):
        await streaming_cluster.machine.started[-1].detached.wait()


async def test_port_forward_of_the_official_python_client(
    streaming_cluster: StreamingCluster,
) -> None:
    await streaming_cluster.pod("web")

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with (
        server,
        connected(
            streaming_cluster, f"/web/portforward?ports={port},1", "v4.channel.k8s.io"
        ) as client,
    ):
        number = port.to_bytes(2, "little")
        begins = [await client.next() for _ in range(4)]
        assert begins == [b"\0" + number, b"\1" + number, b"\2\1\0", b"\3\1\0"]
        rejected = await client.next()
        assert isinstance(rejected, bytes)
        assert rejected.startswith(b"\3error forwarding port 1 to pod web")
        await client.send(BytesMessage(data=b"\0hello\n"))
        assert await client.next() == b"\0HELLO\n"
        assert isinstance(await client.next(), CloseConnection)


async def test_client_that_disconnects_early_leaves_nothing_behind(
    streaming_cluster: StreamingCluster,
) -> None:
    requested, release = asyncio.Event(), asyncio.Event()

    class Slow(LocalMachineKubelet):
        async def execute(
            self, pod: Any, container: str, command: Sequence[str], *, stdin: bool, tty: bool
        ) -> RemoteProcess:
            requested.set()
            await release.wait()
            return await super().execute(pod, container, command, stdin=stdin, tty=tty)

    streaming_cluster.machine = Slow()
    streaming_cluster.cluster.kubelets.register(NODE, streaming_cluster.machine)
    await streaming_cluster.pod("web")
    _, writer = await streaming_cluster.dial()
    path = f"{BASE}/web/exec?command=sleep&command=600&stdout=true"
    lines = [f"GET {path} HTTP/1.1", *HANDSHAKE, "Sec-WebSocket-Protocol: v5.channel.k8s.io"]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(20):
        await requested.wait()
        writer.transport.abort()
        # The server has noticed it when another connection shows it.
        assert (await streaming_cluster.raw("GET", "/version")).status == 200
        release.set()
        while not streaming_cluster.machine.started:
            await asyncio.sleep(0.01)
        await streaming_cluster.machine.started[-1].detached.wait()


async def test_client_that_does_not_read_blocks_the_process(
    streaming_cluster: StreamingCluster,
) -> None:
    await streaming_cluster.pod("web")
    path = "/web/exec?command=yes&stdout=true"
    async with connected(streaming_cluster, path, "v5.channel.k8s.io") as client:
        client.writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        # In transit: the socket's buffers, and a few pieces of ours.
        sizes: list[int] = []
        while len(sizes) < 4 or sizes[-1] != sizes[-4]:
            await asyncio.sleep(0.3)
            sizes.append(_written(streaming_cluster))
        assert 0 < sizes[-1] < 32 << 20


def _written(streaming_cluster: StreamingCluster) -> int:
    """How much the process has written, as the system counts it."""
    counted = Path(f"/proc/{streaming_cluster.machine.started[-1].process.pid}/io").read_text()
    return int(dict(line.split(": ") for line in counted.splitlines())["wchar"])


@pytest.mark.parametrize(
    "path", ["/web/exec?command=cat&stdin=true&stdout=true&tty=false", "/web/portforward?ports=1"]
)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(noise=st.binary(min_size=1, max_size=200))
async def test_arbitrary_bytes_do_not_crash_the_server(
    streaming_cluster: StreamingCluster, path: str, noise: bytes
) -> None:
    if not streaming_cluster.machine.known:
        streaming_cluster.machine.known.add("web")
        await streaming_cluster.pod("web")
    protocol = "v5.channel.k8s.io" if "exec" in path else "SPDY/3.1+portforward.k8s.io"
    async with connected(streaming_cluster, path, protocol) as client:
        client.writer.write(noise)
        await client.send(BytesMessage(data=noise))
        client.writer.write_eof() if client.writer.can_write_eof() else client.writer.close()
    response = await streaming_cluster.raw("GET", "/version")
    assert response.status == 200
