"""Every WebSocket subprotocol of Kubernetes, and none: exec, port-forward, logs, watches."""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import pytest
from wsproto.events import BytesMessage, CloseConnection, TextMessage

from tests.conftest import Api
from tests.local.apiserver.streaming.streaming_cluster import StreamingCluster
from tests.local.apiserver.streaming.test_plain_websockets import HANDSHAKE, Client, connected
from tests.local.embedded_cluster import CONFIG_MAPS

BINARY = ["", "channel.k8s.io", "v4.channel.k8s.io"]
TEXT = ["base64.channel.k8s.io", "v4.base64.channel.k8s.io"]
BY_WORDS = {"", "channel.k8s.io", "base64.channel.k8s.io"}


class Channels:
    """Channels over binary messages, or over text, depending on the protocol."""

    def __init__(self, client: Client, protocol: str) -> None:
        self._client = client
        self._as_text = "base64" in protocol

    async def send(self, channel: int, data: bytes) -> None:
        if self._as_text:
            text = f"{channel}{base64.b64encode(data).decode()}"
            await self._client.send(TextMessage(data=text))
        else:
            await self._client.send(BytesMessage(data=bytes((channel,)) + data))

    async def next(self) -> tuple[int, bytes] | None:
        """The next data of a channel; None at the end."""
        came = await self._client.next()
        if isinstance(came, CloseConnection):
            assert came.code == 1000
            return None
        if self._as_text:
            assert isinstance(came, str)
            return int(came[0]), base64.b64decode(came[1:], validate=True)
        assert isinstance(came, bytes)
        return came[0], came[1:]


@pytest.mark.parametrize("protocol", [*BINARY, *TEXT])
async def test_command_over_each_protocol(
    streaming_cluster: StreamingCluster, protocol: str
) -> None:
    await streaming_cluster.pod("web")
    script = "read line; echo got $line; echo bad >&2; exit 3"
    path = f"/web/exec?command=sh&command=-c&command={quote(script)}&stdin=1&stdout=1&stderr=1"
    async with connected(streaming_cluster, path, protocol) as client:
        channels = Channels(client, protocol)
        assert await channels.next() == (1, b"")
        await channels.send(0, b"it\n")
        received = {1: b"", 2: b"", 3: b""}
        while (came := await channels.next()) is not None:
            received[came[0]] += came[1]
    assert (received[1], received[2]) == (b"got it\n", b"bad\n")
    if protocol in BY_WORDS:
        assert received[3] == b"command terminated with non-zero exit code: exit status 3"
    else:
        assert json.loads(received[3])["details"]["causes"][0]["message"] == "3"


@pytest.mark.parametrize("protocol", [*BINARY, *TEXT])
async def test_success_is_reported_since_version_4(
    streaming_cluster: StreamingCluster, protocol: str
) -> None:
    await streaming_cluster.pod("web")
    async with connected(streaming_cluster, "/web/exec?command=true&stderr=1", protocol) as client:
        channels = Channels(client, protocol)
        assert await channels.next() == (2, b"")
        came = await channels.next()
        if protocol in BY_WORDS:
            assert came is None
        else:
            assert came is not None
            assert (came[0], json.loads(came[1])["status"]) == (3, "Success")


@pytest.mark.parametrize("protocol", [*BINARY, *TEXT])
async def test_port_forward_over_each_protocol(
    streaming_cluster: StreamingCluster, protocol: str
) -> None:
    """Also without one, as kr8s does."""
    await streaming_cluster.pod("web")

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    path = f"/web/portforward?name=web&namespace=default&ports={port}&_preload_content=false"
    async with server, connected(streaming_cluster, path, protocol) as client:
        channels = Channels(client, protocol)
        number = port.to_bytes(2, "little")
        assert [await channels.next(), await channels.next()] == [(0, number), (1, number)]
        await channels.send(0, b"hello\n")
        assert await channels.next() == (0, b"HELLO\n")
        assert await channels.next() is None


async def test_invalid_base64_is_ignored(streaming_cluster: StreamingCluster) -> None:
    await streaming_cluster.pod("web")
    path = "/web/exec?command=cat&stdin=1&stdout=1"
    protocol = "base64.channel.k8s.io"
    async with connected(streaming_cluster, path, protocol) as client:
        channels = Channels(client, protocol)
        assert await channels.next() == (1, b"")
        for text in ("0%%%", "", "0", "\x00abc", "9eA=="):
            await client.send(TextMessage(data=text))
        await channels.send(0, b"here")
        assert await channels.next() == (1, b"here")


@pytest.mark.parametrize("protocol", ["", "binary.k8s.io", "base64.binary.k8s.io"])
async def test_log_over_websocket(streaming_cluster: StreamingCluster, protocol: str) -> None:
    await streaming_cluster.pod("web")
    plain = await streaming_cluster.raw("GET", "/api/v1/namespaces/default/pods/web/log")
    assert plain.status == 200
    async with connected(streaming_cluster, "/web/log", protocol) as client:
        as_text = protocol.startswith("base64")
        assert await client.next() == ("" if as_text else b"")
        text = b""
        while not isinstance(came := await client.next(), CloseConnection):
            assert isinstance(came, str if as_text else bytes)
            text += base64.b64decode(came) if isinstance(came, str) else bytes(came)  # pyright: ignore
    assert text
    assert text in plain.body


@asynccontextmanager
async def watching(api: Api, path: str) -> AsyncGenerator[Client]:
    access = api.access
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", access.port, ssl=access.ssl_context(), server_hostname="localhost"
    )
    lines = [f"GET {path} HTTP/1.1", *HANDSHAKE, "Origin: http://localhost"]
    if access.token:
        lines.append(f"Authorization: Bearer {access.token}")
    writer.write("\r\n".join([*lines, "", ""]).encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 "), head
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()


async def test_watch_over_websocket(api: Api) -> None:
    """One event per text message, however long; on both servers."""
    long = "xü" * 200_000  # two-byte characters at odd offsets: some pieces end within one
    path = f"/api/v1/namespaces/{api.namespace}/configmaps?watch=1&fieldSelector=metadata.name%3Da"

    async def event(client: Client) -> Any:
        came = await client.next()
        assert isinstance(came, str)
        assert came.endswith("\n")
        return json.loads(came)

    async with api.client() as client, watching(api, path) as watch:
        for value in ("1", long):
            body = {"metadata": {"name": "a"}, "data": {"n": value}}
            if value == "1":
                await client.create(CONFIG_MAPS, body, api.namespace)
            else:
                await client.patch(CONFIG_MAPS, "a", body, api.namespace)
        events = [await event(watch) for _ in range(2)]
        assert [(each["type"], each["object"]["data"]["n"]) for each in events] == [
            ("ADDED", "1"),
            ("MODIFIED", long),
        ]
        await watch.send(TextMessage(data="of no interest"))
        await client.delete(CONFIG_MAPS, "a", api.namespace)
        assert (await event(watch))["type"] == "DELETED"
        await watch.send(CloseConnection(code=1000))
        assert isinstance(await watch.next(), CloseConnection)
