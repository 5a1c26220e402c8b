"""One HTTP/1.1 request to a pod and its answer, both as streams."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import h11

from kilonova.local.streaming.wire import READ_BYTES

Headers = list[tuple[str, str]]


@dataclass(slots=True)
class Asked:
    """A request as it goes to the pod."""

    method: str
    target: str
    headers: Headers
    body: AsyncIterator[bytes]


@dataclass(slots=True)
class Answered:
    """The beginning of the pod's answer; `chunks` are the rest."""

    status: int
    headers: Headers
    chunks: AsyncIterator[bytes] = field(repr=False)


class Exchange:
    """One request on a connection of its own, which ends with it. Raises OSError."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)
        self._sending: asyncio.Task[None] | None = None

    async def perform(self, asked: Asked) -> Answered:
        """Return with the head of the answer. A pod may answer before it has read all."""
        try:
            head = h11.Request(method=asked.method, target=asked.target, headers=asked.headers)
            self._writer.write(self._http.send(head) or b"")
            self._sending = asyncio.create_task(self._send(asked.body))
            event = await self._next()
            while isinstance(event, h11.InformationalResponse):
                event = await self._next()
            if not isinstance(event, h11.Response):
                raise ConnectionResetError("the connection ended before an answer")
        except h11.ProtocolError as error:
            await self.close()
            raise ConnectionError(f"not HTTP: {error}") from error
        except BaseException:
            await self.close()
            raise
        headers = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in event.headers]
        return Answered(event.status_code, headers, self._chunks())

    async def start_tls(self) -> None:
        """Speak TLS from here on; as in Kubernetes, whoever the pod says it is."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        await self._writer.start_tls(context)

    async def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        self._writer.close()

    async def _send(self, body: AsyncIterator[bytes]) -> None:
        try:
            async for chunk in body:
                self._writer.write(self._http.send(h11.Data(data=chunk)) or b"")
                await self._writer.drain()
            self._writer.write(self._http.send(h11.EndOfMessage()) or b"")
        except BaseException:
            # Half a body must not be taken for a whole one, nor an answer be waited for.
            self._writer.transport.abort()
            raise

    async def _chunks(self) -> AsyncIterator[bytes]:
        try:
            while isinstance(event := await self._next(), h11.Data):
                yield bytes(event.data)
        except h11.ProtocolError as error:
            raise ConnectionError(f"not HTTP: {error}") from error
        finally:
            await self.close()

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(READ_BYTES))
        return event
