"""What a container of a pod has written, and goes on to write."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from kilonova.console.replies import Refused
from kilonova.kube import Client, Request, StreamReply

_CONTAINER = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_TAIL = 500
_MOST_TAIL = 5000
_FIRST_SECONDS = 2.0
"""A refusal comes sooner; of a container that is silent, that it is answers the request."""

_HEADERS = {
    "content-type": "text/plain; charset=utf-8",
    "cache-control": "no-store",
    # What stands before us (an ingress) passes every line on as it comes.
    "x-accel-buffering": "no",
}


class LogQuery(msgspec.Struct, frozen=True):
    """Which output is asked for."""

    container: str
    tail: int
    follow: bool
    previous: bool
    """That of the container's last run instead of this one's."""


def read_query(request: Request) -> LogQuery:
    """What a request asks for; `Refused` if it makes no sense."""
    container = request.param("container") or ""
    if container and not _CONTAINER.fullmatch(container):
        raise Refused(400, f"container={container!r} is no name of a container")
    tail = request.param("tail") or str(_TAIL)
    if not tail.isdecimal() or not 0 < int(tail) <= _MOST_TAIL:
        raise Refused(400, f"tail={tail!r}: want a number of lines, 1 to {_MOST_TAIL}")
    follow, previous = (request.param(name) == "true" for name in ("follow", "previous"))
    return LogQuery(container, int(tail), follow, previous)


async def stream_log(client: Client, pod: str, namespace: str, query: LogQuery) -> StreamReply:
    """The last lines, and with `follow` all that come; what the API server refuses is raised."""
    chunks = client.logs(
        pod,
        namespace,
        container=query.container,
        follow=query.follow,
        tail=query.tail,
        previous=query.previous,
    )
    first = asyncio.ensure_future(anext(aiter(chunks), b""))
    try:
        done, _ = await asyncio.wait((first,), timeout=_FIRST_SECONDS)
        if done:
            first.result()
    except BaseException:
        await _close(chunks, first)
        raise
    return StreamReply(200, _rest(chunks, first), dict(_HEADERS))


async def _rest(
    chunks: AsyncIterator[bytes], first: "asyncio.Future[bytes]"
) -> AsyncGenerator[bytes]:
    try:
        yield await first
        async for chunk in chunks:
            yield chunk
    finally:
        await _close(chunks, first)


async def _close(chunks: AsyncIterator[bytes], first: "asyncio.Future[bytes]") -> None:
    first.cancel()
    await asyncio.wait((first,))
    if isinstance(chunks, AsyncGenerator):
        await chunks.aclose()
