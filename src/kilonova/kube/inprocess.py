"""Requests to an API in the same process, without a socket.

The API is given the very request and answers as it would over HTTP; nothing is encoded twice
or copied. Exceptions of the API are its own failures and reach the caller as they are.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from kilonova.kube.transport import Reply, Request, StreamReply

Answer: TypeAlias = Callable[[Request], Awaitable[Reply | StreamReply]]
"""An API: takes a request, answers it whole or as a stream."""


class InProcessTransport:
    """Hands requests to `answer`, which is called in the caller's task."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def send(self, request: Request) -> Reply:
        """Ask, and gather the answer if it comes as a stream."""
        reply = await self._answer(request)
        if isinstance(reply, Reply):
            return reply
        try:
            body = b"".join([chunk async for chunk in reply.chunks])
        finally:
            await _end(reply.chunks)
        return Reply(reply.status, body, reply.headers)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[StreamReply]:
        """Ask, and read the answer as it comes; leaving the context ends it on both sides."""
        reply = await self._answer(request)
        if isinstance(reply, Reply):
            reply = StreamReply(reply.status, _only(reply.body), reply.headers)
        try:
            yield reply
        finally:
            await _end(reply.chunks)

    async def close(self) -> None:
        """There is nothing to close: the API lives on without us."""


async def _only(body: bytes) -> AsyncGenerator[bytes]:
    yield body


async def _end(chunks: AsyncIterator[bytes]) -> None:
    close: Any = getattr(chunks, "aclose", None)
    if close is not None:
        await close()
