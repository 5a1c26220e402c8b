"""A proxy between a client and a server that closes connections instead of passing responses."""

import asyncio
from dataclasses import replace
from urllib.parse import urlsplit

from tests.objectstore.conftest import Bucket


class FlakyProxy:
    """Passes requests on; of the next `lose_responses` of them the responses are lost, and the next
    `hold_requests` of them wait until `released` is set; `held` says that one waits."""

    def __init__(self, url: str) -> None:
        target = urlsplit(url)
        self._target = target.hostname, target.port
        self._server: asyncio.Server | None = None
        self.lose_responses = 0
        self.hold_requests = 0
        self.held = asyncio.Event()
        self.released = asyncio.Event()

    async def __aenter__(self) -> "FlakyProxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    def rewrite(self, bucket: Bucket) -> Bucket:
        """The bucket as it is reached through the proxy."""
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        return replace(bucket, url=f"http://127.0.0.1:{port}")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        try:
            await asyncio.gather(self._pass_on(reader, back), self._answer(there, writer))
        except ConnectionError:
            pass
        finally:
            back.close()
            writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if self.hold_requests:
                self.hold_requests -= 1
                self.held.set()
                await self.released.wait()
            writer.write(data)
            await writer.drain()
        writer.write_eof()

    async def _answer(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await there.read(65536):
            is_answer = not data.startswith(b"HTTP/1.1 100")
            if self.lose_responses and is_answer:
                self.lose_responses -= 1
                raise ConnectionResetError
            writer.write(data)
            await writer.drain()
        writer.close()
