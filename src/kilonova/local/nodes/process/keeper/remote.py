"""A process in a container, over a connection to the keeper."""

import asyncio
import json
from collections.abc import AsyncIterator

from kilonova.local.kubelets import Output
from kilonova.local.nodes.process.keeper.frames import CHUNK, Frames, Kind

_UNREAD = 8
"""Chunks of output that wait here; more wait in the process's pipe."""
_LOST = 137


class KeptProcess:
    """As exec and attach see it. One may read output while another sends input."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._output: asyncio.Queue[tuple[Output, bytes] | None] = asyncio.Queue(_UNREAD)
        self._taken = asyncio.Semaphore(0)
        self._sending = asyncio.Lock()
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read())

    async def output(self) -> AsyncIterator[tuple[Output, bytes]]:
        while (got := await self._output.get()) is not None:
            yield got
        self._output.put_nowait(None)  # whoever asks again

    async def send(self, data: bytes) -> None:
        async with self._sending:
            for start in range(0, len(data), CHUNK):
                if self._exit.done():
                    return
                await self._tell(Kind.STDIN, data[start : start + CHUNK])
                await self._taken.acquire()

    async def close_input(self) -> None:
        async with self._sending:
            await self._tell(Kind.END_OF_STDIN)

    async def resize(self, columns: int, rows: int) -> None:
        await self._tell(Kind.RESIZE, json.dumps([columns, rows]).encode())

    async def wait(self) -> int:
        return await asyncio.shield(self._exit)

    async def detach(self) -> None:
        self._frames.abort()
        self._reading.cancel()
        while not self._output.empty():
            self._output.get_nowait()
        self._output.put_nowait(None)
        self._ended(_LOST)

    async def _tell(self, kind: Kind, data: bytes = b"") -> None:
        try:
            await self._frames.send(kind, data)
        except ConnectionError:
            return  # it has ended; `wait` tells how

    async def _read(self) -> None:
        code = _LOST
        while (got := await self._frames.read()) is not None:
            kind, data = got
            if kind is Kind.TAKEN:
                self._taken.release()
            elif kind is Kind.EXIT:
                code = int(data)
            else:
                await self._output.put((Output(kind), data))
        await self._output.put(None)
        self._frames.close()
        self._ended(code)

    def _ended(self, code: int) -> None:
        if not self._exit.done():
            self._exit.set_result(code)
        self._taken.release()
