"""HTTP/1.1 by kept connections, with as little work of ours per request as possible.

A request is bytes that were built before. A connection has one request at a time; it is closed if
that fails or is cancelled. Nothing is repeated: a request that a server loses is a failure that
counts.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from kilonova.serving.loadtest.targets.address import Address

OnChunk = Callable[[bytes], None]
MAX_BODY_BYTES = 256 << 20


class RequestFailed(Exception):
    """A request without a complete answer; `status` says in two words what happened."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class HttpAnswer:
    """A complete answer."""

    status: int
    body: bytes
    headers: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    """With names in lower case."""


def build_request(
    address: Address,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """The bytes of a request."""
    fields = {"host": address.authority, "user-agent": "kilonova-bench", "accept": "*/*"}
    if body:
        fields |= {"content-type": "application/json"}
    if body or method == "POST":
        fields |= {"content-length": str(len(body))}
    fields |= {name.lower(): value for name, value in (headers or {}).items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"{method} {path or '/'} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + body


class HttpConnections:
    """Connections to one address, as many as there are requests at the same time."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None = None) -> None:
        self.address = address
        self._tls = tls
        self._free: list[_Connection] = []

    async def send(self, request: bytes, on_chunk: OnChunk | None = None) -> HttpAnswer:
        """Send a request. With `on_chunk`, the body of a 2xx answer is given to it piece by piece.

        Raises `RequestFailed`.
        """
        connection = await self._take()
        try:
            answer = await connection.send(request, on_chunk)
        except BaseException:
            connection.close()
            raise
        if connection.can_be_kept:
            self._free.append(connection)
        else:
            connection.close()
        return answer

    def close(self) -> None:
        """Close the connections that are not in use."""
        while self._free:
            self._free.pop().close()

    async def _take(self) -> "_Connection":
        while self._free:
            connection = self._free.pop()
            if not connection.is_closed:
                return connection
        loop = asyncio.get_running_loop()
        address = self.address
        try:
            _, connection = await loop.create_connection(
                _Connection, address.host, address.port, ssl=self._tls
            )
        except ssl.SSLError as error:
            raise RequestFailed("tls error", str(error)) from error
        except OSError as error:
            message = error.strerror or str(error)
            raise RequestFailed("connect error", f"{address.authority}: {message}") from error
        return connection


class _Connection(asyncio.Protocol):
    """One connection, and the answer that is being read from it."""

    def __init__(self) -> None:
        self.is_closed = False
        self.can_be_kept = False
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[HttpAnswer] | None = None
        self._parser = _AnswerParser(self._complete)

    async def send(self, request: bytes, on_chunk: OnChunk | None) -> HttpAnswer:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._parser.begin(on_chunk)
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        self.is_closed = True
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.close()  # nothing was asked for
            return
        problem = self._parser.feed(data)
        if problem:
            self._fail(RequestFailed("invalid answer", problem))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if self._answer is None or self._answer.done():
            return
        if self._parser.ends_with_connection:
            self._complete(self._parser.build_answer(), False)
            return
        reason = str(exc) if exc else "the server closed the connection"
        when = "in the middle of the answer" if self._parser.has_begun else "before it answered"
        self._fail(RequestFailed("connection lost", f"{reason} {when}"))

    def _complete(self, answer: HttpAnswer, can_be_kept: bool) -> None:
        self.can_be_kept = can_be_kept and not self.is_closed
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _fail(self, failure: RequestFailed) -> None:
        self.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(failure)


class _AnswerParser:
    """Reads answers with httptools, which calls the methods `on_…`."""

    def __init__(self, complete: Callable[[HttpAnswer, bool], None]) -> None:
        self._complete = complete
        self.begin(None)

    def begin(self, on_chunk: OnChunk | None) -> None:
        """Expect another answer."""
        import httptools

        self.has_begun = False
        self._on_chunk = on_chunk
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._body = bytearray()
        self._has_headers = False
        self._parser = httptools.HttpResponseParser(self)

    @property
    def ends_with_connection(self) -> bool:
        """Whether the end of the connection is that of the answer."""
        framed = b"content-length" in self._headers or b"transfer-encoding" in self._headers
        return self._has_headers and not framed

    def feed(self, data: bytes) -> str:
        """Read bytes; what is wrong with them, else an empty text."""
        import httptools

        self.has_begun = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            return str(error)
        if len(self._body) > MAX_BODY_BYTES:
            return f"the answer is larger than {MAX_BODY_BYTES >> 20} MiB"
        return ""

    def build_answer(self) -> HttpAnswer:
        """What was read."""
        return HttpAnswer(self._status, bytes(self._body), self._headers)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()
        self._has_headers = self._status >= 200

    def on_body(self, body: bytes) -> None:
        if self._on_chunk is not None and self._status < 300:
            self._on_chunk(body)
        else:
            self._body += body

    def on_message_complete(self) -> None:
        if self._status < 200:  # 100 Continue and such: the answer follows
            self._headers = {}
            return
        self._complete(self.build_answer(), self._parser.should_keep_alive())
