"""WebSocket clients that are not kubectl: version 4, ports by channel, bad manners."""

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

from kilonova.local.kubelets import RemoteProcess
from tests.local.streaming.machine import ThisMachine
from tests.local.streaming.scene import NODE, Scene

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
        """A whole message, or how the connection was closed, or an answer to a ping."""
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
async def connected(scene: Scene, path: str, protocol: str = "") -> AsyncGenerator[Client]:
    reader, writer = await scene.dial()
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


async def test_version_4_has_channels_but_no_end_of_input(scene: Scene) -> None:
    await scene.pod("web")
    path = "/web/exec?command=cat&stdin=true&stdout=true"
    async with connected(scene, path, "x, v4.channel.k8s.io") as client:
        assert await client.next() == b"\1"  # it stands
        await client.send(BytesMessage(data=b"\0hello"))
        assert await client.next() == b"\1hello"
        await client.send(Ping(payload=b"?"))
        assert await client.next() == Pong(payload=b"?")
        await client.send(CloseConnection(code=1000))
        assert isinstance(await client.next(), CloseConnection)
    async with asyncio.timeout(20):
        await scene.machine.started[-1].detached.wait()


async def test_the_outcome_is_the_last_word(scene: Scene) -> None:
    await scene.pod("web")
    path = "/web/exec?command=sh&command=-c&command=exit%202&stdout=true"
    async with connected(scene, path, "v4.channel.k8s.io") as client:
        assert await client.next() == b"\1"
        last = await client.next()
        assert isinstance(last, bytes)
        assert last[0] == 3
        assert json.loads(last[1:])["details"]["causes"][0]["message"] == "2"
        closed = await client.next()
        assert isinstance(closed, CloseConnection)
        assert closed.code == 1000


async def test_text_is_as_good_as_bytes(scene: Scene) -> None:
    await scene.pod("web")
    path = "/web/exec?command=cat&stdin=true&stdout=true"
    async with connected(scene, path, "v4.channel.k8s.io") as client:
        assert await client.next() == b"\1"
        await client.send(TextMessage(data="\0grüße"))
        assert await client.next() == "\1grüße".encode()


async def test_what_is_no_frame_ends_the_conversation(scene: Scene) -> None:
    await scene.pod("web")
    path = "/web/exec?command=sleep&command=600&stdin=true&stdout=true"
    async with connected(scene, path, "v5.channel.k8s.io") as client:
        assert await client.next() == b"\1"
        client.writer.write(b"\x82\x05hello")
        closed = await client.next()
        assert isinstance(closed, CloseConnection)
        assert (closed.code, closed.reason) == (
            1002,
            "server received unexpected unmasked frame",
        )
    async with asyncio.timeout(20):
        await scene.machine.started[-1].detached.wait()


async def test_ports_of_the_official_python_client(scene: Scene) -> None:
    await scene.pod("web")

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with (
        server,
        connected(scene, f"/web/portforward?ports={port},1", "v4.channel.k8s.io") as client,
    ):
        number = port.to_bytes(2, "little")
        begins = [await client.next() for _ in range(4)]
        assert begins == [b"\0" + number, b"\1" + number, b"\2\1\0", b"\3\1\0"]
        refused = await client.next()
        assert isinstance(refused, bytes)
        assert refused.startswith(b"\3error forwarding port 1 to pod web")
        await client.send(BytesMessage(data=b"\0hello\n"))
        assert await client.next() == b"\0HELLO\n"
        assert isinstance(await client.next(), CloseConnection)


async def test_who_does_not_wait_for_the_answer_leaves_nothing_behind(scene: Scene) -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    class Slow(ThisMachine):
        async def execute(
            self, pod: Any, container: str, command: Sequence[str], *, stdin: bool, tty: bool
        ) -> RemoteProcess:
            asked.set()
            await release.wait()
            return await super().execute(pod, container, command, stdin=stdin, tty=tty)

    scene.machine = Slow()
    scene.cluster.kubelets.register(NODE, scene.machine)
    await scene.pod("web")
    _, writer = await scene.dial()
    path = f"{BASE}/web/exec?command=sleep&command=600&stdout=true"
    lines = [f"GET {path} HTTP/1.1", *HANDSHAKE, "Sec-WebSocket-Protocol: v5.channel.k8s.io"]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(20):
        await asked.wait()
        writer.transport.abort()
        # The server has heard of it when it can be heard of on another connection.
        assert (await scene.raw("GET", "/version")).status == 200
        release.set()
        while not scene.machine.started:
            await asyncio.sleep(0.01)
        await scene.machine.started[-1].detached.wait()


async def test_who_does_not_read_stops_the_process(scene: Scene) -> None:
    await scene.pod("web")
    path = "/web/exec?command=yes&stdout=true"
    async with connected(scene, path, "v5.channel.k8s.io") as client:
        client.writer.transport.pause_reading()  # pyright: ignore[reportAttributeAccessIssue]
        # What is under way: the socket's buffers, and a few pieces of ours.
        sizes: list[int] = []
        while len(sizes) < 4 or sizes[-1] != sizes[-4]:
            await asyncio.sleep(0.3)
            sizes.append(_written(scene))
        assert 0 < sizes[-1] < 32 << 20


def _written(scene: Scene) -> int:
    """How much the process has got rid of, as the system counts it."""
    counted = Path(f"/proc/{scene.machine.started[-1].process.pid}/io").read_text()
    return int(dict(line.split(": ") for line in counted.splitlines())["wchar"])


@pytest.mark.parametrize(
    "path", ["/web/exec?command=cat&stdin=true&stdout=true&tty=false", "/web/portforward?ports=1"]
)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(noise=st.binary(min_size=1, max_size=200))
async def test_no_bytes_bring_the_server_down(scene: Scene, path: str, noise: bytes) -> None:
    if not scene.machine.known:
        scene.machine.known.add("web")
        await scene.pod("web")
    protocol = "v5.channel.k8s.io" if "exec" in path else "SPDY/3.1+portforward.k8s.io"
    async with connected(scene, path, protocol) as client:
        client.writer.write(noise)
        await client.send(BytesMessage(data=noise))
        client.writer.write_eof() if client.writer.can_write_eof() else client.writer.close()
    answer = await scene.raw("GET", "/version")
    assert answer.status == 200
