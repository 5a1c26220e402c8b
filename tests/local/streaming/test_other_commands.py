"""Commands of kubectl that stand on connections: cp, proxy, port-forward to a service."""

import asyncio
import os
from typing import Any

from tests.local.embedded_cluster import PODS, SERVICES
from tests.local.streaming.scene import Scene


async def test_files_are_copied_both_ways(scene: Scene) -> None:
    await scene.pod("web")
    content = os.urandom(3_000_000)
    (scene.folder / "here").mkdir()
    (scene.folder / "here" / "file").write_bytes(content)
    there = scene.folder / "there"
    up = await scene.run("cp", "here", f"web:{there}")
    assert (up.code, (there / "file").read_bytes() == content) == (0, True), up.err
    down = await scene.run("cp", f"web:{there}/file", "back")
    assert (down.code, (scene.folder / "back").read_bytes() == content) == (0, True), down.err


async def test_a_service_is_forwarded_to_one_of_its_pods(scene: Scene) -> None:
    await scene.pod("web")
    await scene.client.patch(PODS, "web", {"metadata": {"labels": {"app": "web"}}}, "default")

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    target = server.sockets[0].getsockname()[1]
    service: Any = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": target}]},
    }
    await scene.client.create(SERVICES, service, "default")
    async with server, scene.forwarded("service/web", ":80") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b"hello\n"
        writer.close()


async def test_kubectl_proxy_reaches_a_pod(scene: Scene) -> None:
    await scene.pod("web")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    target = server.sockets[0].getsockname()[1]
    client = await scene.start("proxy", "--port=0")
    line = await client.stdout.readline()
    port = int(line.rpartition(b":")[2])
    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        path = f"/api/v1/namespaces/default/pods/web:{target}/proxy/"
        writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        assert (await reader.read()).endswith(b"\r\n\r\nhello\n")
        writer.close()
