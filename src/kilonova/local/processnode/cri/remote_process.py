"""A process in a container, over a connection to the shim."""

import asyncio
import json
from collections.abc import AsyncIterator

from kilonova.local.kubelet_api import OutputStream
from kilonova.local.processnode.cri.frames import MAX_CHUNK, FrameConnection, FrameKind

_MAX_UNREAD_CHUNKS = 8
"""Chunks of output buffered here; the rest stays in the process's pipe."""
_LOST_EXIT_CODE = 137


class ShimProcess:
    """An exec or attach session. Output may be read while input is being sent."""

    def __init__(self, frames: FrameConnection) -> None:
        self._frames = frames
        self._output: asyncio.Queue[tuple[OutputStream, bytes] | None] = asyncio.Queue(
            _MAX_UNREAD_CHUNKS
        )
        self._stdin_acks = asyncio.Semaphore(0)
        self._sending = asyncio.Lock()
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.create_task(self._read_frames())

    async def output(self) -> AsyncIterator[tuple[OutputStream, bytes]]:
        while (got := await self._output.get()) is not None:
            yield got
        self._output.put_nowait(None)  # for later calls of `wait`

    async def send(self, data: bytes) -> None:
        async with self._sending:
            for start in range(0, len(data), MAX_CHUNK):
                if self._exit.done():
                    return
                await self._send_frame(FrameKind.STDIN, data[start : start + MAX_CHUNK])
                await self._stdin_acks.acquire()

    async def close_input(self) -> None:
        async with self._sending:
            await self._send_frame(FrameKind.END_OF_STDIN)

    async def resize(self, columns: int, rows: int) -> None:
        await self._send_frame(FrameKind.RESIZE, json.dumps([columns, rows]).encode())

    async def wait(self) -> int:
        return await asyncio.shield(self._exit)

    async def detach(self) -> None:
        self._frames.abort()
        self._reading.cancel()
        while not self._output.empty():
            self._output.get_nowait()
        self._output.put_nowait(None)
        self._set_exit_code(_LOST_EXIT_CODE)

    async def _send_frame(self, kind: FrameKind, data: bytes = b"") -> None:
        try:
            await self._frames.send_frame(kind, data)
        except ConnectionError:
            return  # the process has ended; `wait` returns the exit code

    async def _read_frames(self) -> None:
        code = _LOST_EXIT_CODE
        while (got := await self._frames.read_frame()) is not None:
            kind, data = got
            if kind is FrameKind.STDIN_ACK:
                self._stdin_acks.release()
            elif kind is FrameKind.EXIT:
                code = int(data)
            else:
                await self._output.put((OutputStream(kind), data))
        await self._output.put(None)
        self._frames.close()
        self._set_exit_code(code)

    def _set_exit_code(self, code: int) -> None:
        if not self._exit.done():
            self._exit.set_result(code)
        self._stdin_acks.release()
