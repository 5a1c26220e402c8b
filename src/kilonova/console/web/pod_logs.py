"""Logs of containers."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from kilonova.console.web.responses import RequestRejected
from kilonova.kube import Client, Request, StreamReply

_CONTAINER_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_DEFAULT_TAIL = 500
_MAX_TAIL = 5000
_FIRST_CHUNK_SECONDS = 2.0
"""How long to wait for an error before replying: an existing log may have no output yet."""

_HEADERS = {
    "content-type": "text/plain; charset=utf-8",
    "cache-control": "no-store",
    # Asks reverse proxies (an ingress) not to buffer lines.
    "x-accel-buffering": "no",
}


class LogQuery(msgspec.Struct, frozen=True):
    """Parameters of a log request."""

    container: str
    tail: int
    follow: bool
    previous: bool
    """The log of the container's previous run."""


def parse_log_query(request: Request) -> LogQuery:
    """The parameters of a request; `RequestRejected` if they are invalid."""
    container = request.query_param("container") or ""
    if container and not _CONTAINER_NAME.fullmatch(container):
        raise RequestRejected(400, f"container={container!r} is not a valid container name")
    tail = request.query_param("tail") or str(_DEFAULT_TAIL)
    if not tail.isdecimal() or not 0 < int(tail) <= _MAX_TAIL:
        raise RequestRejected(400, f"tail={tail!r}: want a number of lines, 1 to {_MAX_TAIL}")
    follow, previous = (request.query_param(name) == "true" for name in ("follow", "previous"))
    return LogQuery(container, int(tail), follow, previous)


async def stream_log(client: Client, pod: str, namespace: str, query: LogQuery) -> StreamReply:
    """The last lines, and with `follow` all later ones; raises errors of the API server."""
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
        done, _ = await asyncio.wait((first,), timeout=_FIRST_CHUNK_SECONDS)
        if done:
            first.result()
    except BaseException:
        await _close_stream(chunks, first)
        raise
    return StreamReply(200, _stream_chunks(chunks, first), dict(_HEADERS), waits_for_client=True)


async def _stream_chunks(
    chunks: AsyncIterator[bytes], first: "asyncio.Future[bytes]"
) -> AsyncGenerator[bytes]:
    try:
        yield await first
        async for chunk in chunks:
            yield chunk
    finally:
        await _close_stream(chunks, first)


async def _close_stream(chunks: AsyncIterator[bytes], first: "asyncio.Future[bytes]") -> None:
    first.cancel()
    await asyncio.wait((first,))
    if isinstance(chunks, AsyncGenerator):
        await chunks.aclose()
