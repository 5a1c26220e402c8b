"""The interface between the client and an API server: over HTTP, or in process.

A `Transport` takes a `Request` and returns a `Reply`, whole or as a stream of chunks. The embedded
API server handles the same three types, so that in-process clients and HTTP clients use the same
handlers.
"""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

Query = list[tuple[str, str]]
"""Query parameters in order; a name may repeat."""


@dataclass(slots=True)
class Request:
    """A request. Header names are lower case."""

    method: str
    path: str
    query: Query = field(default_factory=list[tuple[str, str]])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    wait_for_disconnect: Callable[[], Coroutine[None, None, None]] | None = None
    """Returns when the client disconnected without an answer; None where that is not known."""

    def query_param(self, name: str) -> str | None:
        """The first value of a query parameter."""
        return next((value for key, value in self.query if key == name), None)


@dataclass(slots=True)
class Reply:
    """A complete response. Header names are lower case."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class StreamReply:
    """A streamed response: a watch, a log. `chunks` ends when the server ends it.

    With `waits_for_client` the stream waits indefinitely for a client that does not read, as
    `kubectl logs` into a pager needs; other streams may be ended.
    """

    status: int
    chunks: AsyncIterator[bytes]
    headers: dict[str, str] = field(default_factory=dict[str, str])
    waits_for_client: bool = False


class Transport(Protocol):
    """Sends requests. Implementations are safe for concurrent use in one event loop."""

    async def send(self, request: Request) -> Reply:
        """Send a request and read the complete response."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        """Send a request and read the response as it arrives; leaving the context ends the
        stream."""
        ...

    async def close(self) -> None: ...
