"""One HTTP/1.1 request to a pod and its response, both streamed."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import h11

from kilonova.local.apiserver.streaming.byte_stream import READ_BYTES

Headers = list[tuple[str, str]]


@dataclass(slots=True)
class UpstreamRequest:
    """A request as it is sent to the pod."""

    method: str
    target: str
    headers: Headers
    body: AsyncIterator[bytes]


@dataclass(slots=True)
class UpstreamResponse:
    """The head of the pod's response; `chunks` is its body."""

    status: int
    headers: Headers
    chunks: AsyncIterator[bytes] = field(repr=False)


class HttpExchange:
    """One request on its own connection, which is closed afterwards. Raises OSError."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)
        self._sending: asyncio.Task[None] | None = None

    async def perform(self, request: UpstreamRequest) -> UpstreamResponse:
        """Return with the head of the response. A pod may respond before it has read the
        request."""
        try:
            head = h11.Request(
                method=request.method, target=request.target, headers=request.headers
            )
            self._writer.write(self._http.send(head) or b"")
            self._sending = asyncio.create_task(self._send_body(request.body))
            event = await self._next_event()
            while isinstance(event, h11.InformationalResponse):
                event = await self._next_event()
            if not isinstance(event, h11.Response):
                raise ConnectionResetError("the connection ended before a response")
        except h11.ProtocolError as error:
            await self.close()
            raise ConnectionError(f"not HTTP: {error}") from error
        except BaseException:
            await self.close()
            raise
        headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in event.headers]
        return UpstreamResponse(event.status_code, headers, self._read_chunks())

    async def start_tls(self) -> None:
        """Use TLS from here on; as in Kubernetes, without verifying the pod's certificate."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        await self._writer.start_tls(context)

    async def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        self._writer.close()

    async def _send_body(self, body: AsyncIterator[bytes]) -> None:
        try:
            async for chunk in body:
                self._writer.write(self._http.send(h11.Data(data=chunk)) or b"")
                await self._writer.drain()
            self._writer.write(self._http.send(h11.EndOfMessage()) or b"")
        except BaseException:
            # A truncated body must not look complete, and no response must be awaited.
            self._writer.transport.abort()
            raise

    async def _read_chunks(self) -> AsyncIterator[bytes]:
        try:
            while isinstance(event := await self._next_event(), h11.Data):
                yield bytes(event.data)
        except h11.ProtocolError as error:
            raise ConnectionError(f"not HTTP: {error}") from error
        finally:
            await self.close()

    async def _next_event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(READ_BYTES))
        return event
