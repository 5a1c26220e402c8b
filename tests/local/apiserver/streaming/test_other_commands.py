"""Other kubectl commands over streaming connections: cp, proxy, port-forward to a service."""

import asyncio
import os
from typing import Any

import pytest

from tests.local.apiserver.streaming.streaming_cluster import StreamingCluster
from tests.local.embedded_cluster import PODS, SERVICES

pytestmark = pytest.mark.usefixtures("kubectl_path")


async def test_files_are_copied_both_ways(streaming_cluster: StreamingCluster) -> None:
    await streaming_cluster.pod("web")
    content = os.urandom(3_000_000)
    (streaming_cluster.folder / "here").mkdir()
    (streaming_cluster.folder / "here" / "file").write_bytes(content)
    there = streaming_cluster.folder / "there"
    up = await streaming_cluster.run("cp", "here", f"web:{there}")
    assert (up.code, (there / "file").read_bytes() == content) == (0, True), up.err
    down = await streaming_cluster.run("cp", f"web:{there}/file", "back")
    assert (down.code, (streaming_cluster.folder / "back").read_bytes() == content) == (0, True), (
        down.err
    )


async def test_port_forward_to_a_service_reaches_one_of_its_pods(
    streaming_cluster: StreamingCluster,
) -> None:
    await streaming_cluster.pod("web")
    await streaming_cluster.client.patch(
        PODS, "web", {"metadata": {"labels": {"app": "web"}}}, "default"
    )

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    target = server.sockets[0].getsockname()[1]
    service: Any = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": target}]},
    }
    await streaming_cluster.client.create(SERVICES, service, "default")
    async with server, streaming_cluster.forwarded("service/web", ":80") as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b"hello\n"
        writer.close()


async def test_kubectl_proxy_reaches_a_pod(streaming_cluster: StreamingCluster) -> None:
    await streaming_cluster.pod("web")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    target = server.sockets[0].getsockname()[1]
    client = await streaming_cluster.start("proxy", "--port=0")
    line = await client.stdout.readline()
    port = int(line.rpartition(b":")[2])
    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        path = f"/api/v1/namespaces/default/pods/web:{target}/proxy/"
        writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        assert (await reader.read()).endswith(b"\r\n\r\nhello\n")
        writer.close()
