"""A remote command over SPDY: a stream each for standard input, outputs, error and resizes."""

import asyncio
from collections.abc import AsyncIterator, Coroutine

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.registry.encoding import encode
from kilonova.local.apiserver.streaming.byte_stream import ProtocolError
from kilonova.local.apiserver.streaming.remote_command import (
    ClientInput,
    StdinClosed,
    StdinData,
    StreamOptions,
    decode_terminal_size,
)
from kilonova.local.apiserver.streaming.spdy.connection import SpdyConnection, SpdyStream
from kilonova.local.apiserver.streaming.spdy.frames import ResetStatus
from kilonova.local.kubelet_api import OutputStream

_STREAM_TIMEOUT_SECONDS = 30.0
_LINE_LIMIT = 4096
_QUEUE = 16


class SpdyClientStreams:
    """The client of a SPDY connection. Output waits until its stream is open."""

    def __init__(self, connection: SpdyConnection, options: StreamOptions) -> None:
        self._connection = connection
        self._expected = _expected_streams(options)
        self._streams: dict[str, SpdyStream] = {}
        self._all_opened = asyncio.Event()
        self._events: asyncio.Queue[ClientInput | None] = asyncio.Queue(_QUEUE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: Exception | None = None

    async def read_input(self) -> AsyncIterator[ClientInput]:
        self._start_reading(self._accept_streams())
        try:
            while (event := await self._events.get()) is not None:
                yield event
            if self._error is not None:
                raise self._error
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def write_output(self, output: OutputStream, data: bytes) -> None:
        await self._wait_streams()
        stream = self._streams.get("stdout" if output is OutputStream.STDOUT else "stderr")
        if stream is not None:
            await stream.write(data)

    async def send_status(self, outcome: JsonObject) -> None:
        await self._wait_streams()
        await self._streams["error"].write(encode(outcome))
        for stream in self._streams.values():
            await stream.close_write()

    async def _wait_streams(self) -> None:
        try:
            async with asyncio.timeout(_STREAM_TIMEOUT_SECONDS):
                await self._all_opened.wait()
        except TimeoutError:
            missing = ", ".join(sorted(self._expected - set(self._streams)))
            raise ProtocolError(f"streams not opened by the client: {missing}") from None

    async def _accept_streams(self) -> None:
        try:
            async for stream in self._connection.accept_streams():
                await self._assign_stream(stream)
        except (ProtocolError, OSError) as error:
            self._error = error
        await self._events.put(None)

    async def _assign_stream(self, stream: SpdyStream) -> None:
        name = stream.headers.get("streamtype", "")
        if name not in self._expected or name in self._streams:
            await stream.reset(ResetStatus.PROTOCOL_ERROR)
            return
        self._streams[name] = stream
        if name == "stdin":
            self._start_reading(self._read_stdin(stream))
        elif name == "resize":
            self._start_reading(self._read_resizes(stream))
        if set(self._streams) == self._expected:
            self._all_opened.set()

    def _start_reading(self, reading: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.create_task(reading))

    async def _read_stdin(self, stream: SpdyStream) -> None:
        while data := await stream.read():
            await self._events.put(StdinData(data))
        await self._events.put(StdinClosed())

    async def _read_resizes(self, stream: SpdyStream) -> None:
        remainder = b""
        while data := await stream.read():
            *lines, remainder = (remainder + data).split(b"\n")
            remainder = remainder[-_LINE_LIMIT:]
            for line in lines:
                if (event := decode_terminal_size(line)) is not None:
                    await self._events.put(event)


def _expected_streams(options: StreamOptions) -> set[str]:
    """The streams that a client of protocol v4 opens for these options."""
    names = {
        "error": True,
        "stdin": options.stdin,
        "stdout": options.stdout,
        "stderr": options.stderr and not options.tty,
        "resize": options.tty,
    }
    return {name for name, is_expected in names.items() if is_expected}
