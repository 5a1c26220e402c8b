"""Requests to the API of a cluster in this process, as bytes on the wire would ask."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import looptime

from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.auth import User
from kilonova.local.cluster import Cluster
from tests.local.embedded_cluster import running

MAPS = "/api/v1/namespaces/default/configmaps"
_USER = User("test", groups=("system:masters",))


async def ask(
    cluster: Cluster, url: str, method: str = "GET", body: Any = None
) -> Reply | StreamReply:
    parts = urlsplit(url)
    headers = {"accept": "application/json", "content-type": "application/json"}
    content = b"" if body is None else json.dumps(body).encode()
    query = parse_qsl(parts.query, keep_blank_values=True)
    return await cluster.api.handle(Request(method, parts.path, query, headers, content), _USER)


async def read(cluster: Cluster, url: str, method: str = "GET", body: Any = None) -> Any:
    """A whole answer, decoded: its status code under `code` where it is a refusal."""
    reply = await ask(cluster, url, method, body)
    if isinstance(reply, StreamReply):
        return json.loads(b"".join([chunk async for chunk in reply.chunks]))
    return json.loads(reply.body)


async def lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[Any]:
    """The events of a watch, one by one."""
    torn = b""
    async for chunk in chunks:
        *whole, torn = (torn + chunk).split(b"\n")
        for line in whole:
            yield json.loads(line)
    assert not torn


async def watch(cluster: Cluster, url: str) -> AsyncGenerator[Any]:
    """The events of a watch that the server accepts."""
    reply = await ask(cluster, url)
    assert isinstance(reply, StreamReply), reply.body
    assert reply.status == 200
    return lines(reply.chunks)


def in_virtual_time(scenario: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario on a bare cluster, for tests that make many."""

    async def run() -> None:
        async with running(controllers="") as cluster:
            await scenario(cluster)

    def loop() -> asyncio.AbstractEventLoop:
        return looptime.patch_event_loop(asyncio.SelectorEventLoop())

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(run())
