"""A console over SPDY: a stream for each of standard input, outputs, error and resizes."""

import asyncio
from collections.abc import AsyncIterator, Coroutine

from kilonova.api.json import JsonObject
from kilonova.local.kubelets import Output
from kilonova.local.registry.objects import encode
from kilonova.local.streaming.console import Input, InputEnded, Typed, Wanted, resized
from kilonova.local.streaming.spdy import ResetStatus
from kilonova.local.streaming.spdystreams import SpdyConnection, SpdyStream
from kilonova.local.streaming.wire import ProtocolError

_ARRIVAL_SECONDS = 30.0
_LINE_LIMIT = 4096
_QUEUE = 16


class SpdyConsole:
    """The client at the other end of a SPDY connection. Outputs wait for their streams."""

    def __init__(self, connection: SpdyConnection, wanted: Wanted) -> None:
        self._connection = connection
        self._expected = _expected(wanted)
        self._streams: dict[str, SpdyStream] = {}
        self._complete = asyncio.Event()
        self._events: asyncio.Queue[Input | None] = asyncio.Queue(_QUEUE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._broken: Exception | None = None

    async def inputs(self) -> AsyncIterator[Input]:
        self._read(self._accept())
        try:
            while (event := await self._events.get()) is not None:
                yield event
            if self._broken is not None:
                raise self._broken
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def show(self, output: Output, data: bytes) -> None:
        await self._arrived()
        stream = self._streams.get("stdout" if output is Output.STDOUT else "stderr")
        if stream is not None:
            await stream.write(data)

    async def finish(self, outcome: JsonObject) -> None:
        await self._arrived()
        await self._streams["error"].write(encode(outcome))
        for stream in self._streams.values():
            await stream.finish()

    async def _arrived(self) -> None:
        try:
            async with asyncio.timeout(_ARRIVAL_SECONDS):
                await self._complete.wait()
        except TimeoutError:
            missing = ", ".join(sorted(self._expected - set(self._streams)))
            raise ProtocolError(f"streams that never came: {missing}") from None

    async def _accept(self) -> None:
        try:
            async for stream in self._connection.opened():
                await self._place(stream)
        except (ProtocolError, OSError) as error:
            self._broken = error
        await self._events.put(None)

    async def _place(self, stream: SpdyStream) -> None:
        name = stream.headers.get("streamtype", "")
        if name not in self._expected or name in self._streams:
            await stream.reset(ResetStatus.PROTOCOL_ERROR)
            return
        self._streams[name] = stream
        if name == "stdin":
            self._read(self._typed(stream))
        elif name == "resize":
            self._read(self._sizes(stream))
        if set(self._streams) == self._expected:
            self._complete.set()

    def _read(self, reading: Coroutine[None, None, None]) -> None:
        self._tasks.add(asyncio.create_task(reading))

    async def _typed(self, stream: SpdyStream) -> None:
        while data := await stream.read():
            await self._events.put(Typed(data))
        await self._events.put(InputEnded())

    async def _sizes(self, stream: SpdyStream) -> None:
        kept = b""
        while data := await stream.read():
            *lines, kept = (kept + data).split(b"\n")
            kept = kept[-_LINE_LIMIT:]
            for line in lines:
                if (event := resized(line)) is not None:
                    await self._events.put(event)


def _expected(wanted: Wanted) -> set[str]:
    """The streams that a client of protocol v4 opens for what it asked for."""
    names = {
        "error": True,
        "stdin": wanted.stdin,
        "stdout": wanted.stdout,
        "stderr": wanted.stderr and not wanted.tty,
        "resize": wanted.tty,
    }
    return {name for name, is_expected in names.items() if is_expected}
