"""Requests to the API of a cluster in this process, with encoded bodies."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import looptime

from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.local.apiserver.auth import User
from kilonova.local.cluster import EmbeddedCluster
from tests.local.embedded_cluster import run_cluster

MAPS = "/api/v1/namespaces/default/configmaps"
_USER = User("test", groups=("system:masters",))


async def send(
    cluster: EmbeddedCluster, url: str, method: str = "GET", body: Any = None
) -> Reply | StreamReply:
    parts = urlsplit(url)
    headers = {"accept": "application/json", "content-type": "application/json"}
    content = b"" if body is None else json.dumps(body).encode()
    query = parse_qsl(parts.query, keep_blank_values=True)
    return await cluster.api.handle(Request(method, parts.path, query, headers, content), _USER)


async def read(cluster: EmbeddedCluster, url: str, method: str = "GET", body: Any = None) -> Any:
    """A complete response, decoded; an error has its status code under `code`."""
    reply = await send(cluster, url, method, body)
    if isinstance(reply, StreamReply):
        return json.loads(b"".join([chunk async for chunk in reply.chunks]))
    return json.loads(reply.body)


async def decode_events(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Any]:
    """The events of a watch, one by one."""
    partial = b""
    async for chunk in chunks:
        *lines, partial = (partial + chunk).split(b"\n")
        for line in lines:
            yield json.loads(line)
    assert not partial


async def watch(cluster: EmbeddedCluster, url: str) -> AsyncGenerator[Any]:
    """The events of a watch that the server accepts."""
    reply = await send(cluster, url)
    assert isinstance(reply, StreamReply), reply.body
    assert reply.status == 200
    return decode_events(reply.chunks)


def in_virtual_time(scenario: Callable[[EmbeddedCluster], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario on a bare cluster, for tests that need many."""

    async def run() -> None:
        async with run_cluster(controllers="") as cluster:
            await scenario(cluster)

    def loop() -> asyncio.AbstractEventLoop:
        return looptime.patch_event_loop(asyncio.SelectorEventLoop())

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())
