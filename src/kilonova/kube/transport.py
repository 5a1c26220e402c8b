"""How a request reaches an API server: over HTTP, or in process without a socket.

A `Transport` carries a `Request` and brings back a `Reply`, whole or as a stream of chunks.
The embedded API answers the same three types, so that in-process callers and HTTP clients
meet the same handlers.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

Query = list[tuple[str, str]]
"""Query parameters in order; a name may repeat."""


@dataclass(slots=True)
class Request:
    """One request, before any transport has touched it. Header names are lower case."""

    method: str
    path: str
    query: Query = field(default_factory=list[tuple[str, str]])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""

    def param(self, name: str) -> str | None:
        """The first value of a query parameter."""
        return next((value for key, value in self.query if key == name), None)


@dataclass(slots=True)
class Reply:
    """A whole answer. Header names are lower case."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class StreamReply:
    """An answer that goes on: a watch, a log. `chunks` ends when the server ends it.

    A `paced` one waits for a client that does not read for as long as that takes, as `kubectl logs`
    into a pager needs; others may be ended.
    """

    status: int
    chunks: AsyncIterator[bytes]
    headers: dict[str, str] = field(default_factory=dict[str, str])
    paced: bool = False


class Transport(Protocol):
    """Carries requests. Implementations are safe for concurrent use in one event loop."""

    async def send(self, request: Request) -> Reply:
        """Send and wait for the whole answer."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        """Send and read the answer as it comes; leaving the context ends the stream."""
        ...

    async def close(self) -> None: ...
