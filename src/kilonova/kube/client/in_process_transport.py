"""The transport to an API server in the same process, without a socket.

The server receives the request object itself and answers as it would over HTTP; nothing is encoded
twice or copied. Exceptions of the server reach the caller unchanged.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from kilonova.kube.client.transport import Reply, Request, StreamReply

RequestHandler: TypeAlias = Callable[[Request], Awaitable[Reply | StreamReply]]
"""An API: takes a request, answers it whole or as a stream."""


class InProcessTransport:
    """Passes requests to `handler`, which is called in the caller's task."""

    def __init__(self, handler: RequestHandler) -> None:
        self._handler = handler

    async def send(self, request: Request) -> Reply:
        """Call the server, and collect the response if it is a stream."""
        reply = await self._handler(request)
        if isinstance(reply, Reply):
            return reply
        try:
            body = b"".join([chunk async for chunk in reply.chunks])
        finally:
            await _close_stream(reply.chunks)
        return Reply(reply.status, body, reply.headers)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[StreamReply]:
        """Call the server and read the response as it arrives; leaving the context ends it."""
        reply = await self._handler(request)
        if isinstance(reply, Reply):
            reply = StreamReply(reply.status, _single_chunk(reply.body), reply.headers)
        try:
            yield reply
        finally:
            await _close_stream(reply.chunks)

    async def close(self) -> None:
        """Does nothing: the transport does not own the server."""


async def _single_chunk(body: bytes) -> AsyncGenerator[bytes]:
    yield body


async def _close_stream(chunks: AsyncIterator[bytes]) -> None:
    close: Any = getattr(chunks, "aclose", None)
    if close is not None:
        await close()
