"""Every subprotocol of WebSockets that Kubernetes has, and none: exec, ports, logs, watches."""

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
from tests.local.embedded_cluster import CONFIG_MAPS
from tests.local.streaming.scene import Scene
from tests.local.streaming.test_plain_websockets import HANDSHAKE, Client, connected

BINARY = ["", "channel.k8s.io", "v4.channel.k8s.io"]
TEXT = ["base64.channel.k8s.io", "v4.base64.channel.k8s.io"]
BY_WORDS = {"", "channel.k8s.io", "base64.channel.k8s.io"}


class Channels:
    """Channels over binary messages, or over text where the protocol says so."""

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
        """What comes by a channel; None at the end."""
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
async def test_a_command_by_any_protocol(scene: Scene, protocol: str) -> None:
    await scene.pod("web")
    script = "read line; echo got $line; echo bad >&2; exit 3"
    path = f"/web/exec?command=sh&command=-c&command={quote(script)}&stdin=1&stdout=1&stderr=1"
    async with connected(scene, path, protocol) as client:
        channels = Channels(client, protocol)
        assert await channels.next() == (1, b"")
        await channels.send(0, b"it\n")
        said = {1: b"", 2: b"", 3: b""}
        while (came := await channels.next()) is not None:
            said[came[0]] += came[1]
    assert (said[1], said[2]) == (b"got it\n", b"bad\n")
    if protocol in BY_WORDS:
        assert said[3] == b"command terminated with non-zero exit code: exit status 3"
    else:
        assert json.loads(said[3])["details"]["causes"][0]["message"] == "3"


@pytest.mark.parametrize("protocol", [*BINARY, *TEXT])
async def test_success_is_told_since_version_4(scene: Scene, protocol: str) -> None:
    await scene.pod("web")
    async with connected(scene, "/web/exec?command=true&stderr=1", protocol) as client:
        channels = Channels(client, protocol)
        assert await channels.next() == (2, b"")
        came = await channels.next()
        if protocol in BY_WORDS:
            assert came is None
        else:
            assert came is not None
            assert (came[0], json.loads(came[1])["status"]) == (3, "Success")


@pytest.mark.parametrize("protocol", [*BINARY, *TEXT])
async def test_ports_by_any_protocol(scene: Scene, protocol: str) -> None:
    """With none, as kr8s asks."""
    await scene.pod("web")

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    path = f"/web/portforward?name=web&namespace=default&ports={port}&_preload_content=false"
    async with server, connected(scene, path, protocol) as client:
        channels = Channels(client, protocol)
        number = port.to_bytes(2, "little")
        assert [await channels.next(), await channels.next()] == [(0, number), (1, number)]
        await channels.send(0, b"hello\n")
        assert await channels.next() == (0, b"HELLO\n")
        assert await channels.next() is None


async def test_text_that_is_no_base64_is_passed_over(scene: Scene) -> None:
    await scene.pod("web")
    path = "/web/exec?command=cat&stdin=1&stdout=1"
    protocol = "base64.channel.k8s.io"
    async with connected(scene, path, protocol) as client:
        channels = Channels(client, protocol)
        assert await channels.next() == (1, b"")
        for text in ("0%%%", "", "0", "\x00abc", "9eA=="):
            await client.send(TextMessage(data=text))
        await channels.send(0, b"here")
        assert await channels.next() == (1, b"here")


@pytest.mark.parametrize("protocol", ["", "binary.k8s.io", "base64.binary.k8s.io"])
async def test_a_log_in_messages(scene: Scene, protocol: str) -> None:
    await scene.pod("web")
    plain = await scene.raw("GET", "/api/v1/namespaces/default/pods/web/log")
    assert plain.status == 200
    async with connected(scene, "/web/log", protocol) as client:
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


async def test_a_watch_in_messages(api: Api) -> None:
    """One event each, as text, however long; on both servers."""
    long = "xü" * 200_000  # characters of two bytes, at odd places: pieces end within some
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
