"""Standard input and output of a process: pipes, or a terminal."""

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.local.processnode.shim.nonblocking import write_all

_END_OF_TRANSMISSION = b"\x04"


class ProcessInput:
    """The standard input of a process. Writers take turns."""

    def __init__(self, fd: int, *, is_terminal: bool) -> None:
        self._fd = fd
        self._is_terminal = is_terminal
        self._write_lock = asyncio.Lock()
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def write(self, data: bytes) -> None:
        """Write; blocks while the process does not read. Drops data that will not be read."""
        async with self._write_lock:
            if self._closed.done():
                return
            writing = asyncio.create_task(write_all(self._fd, data))
            try:
                await asyncio.wait({writing, self._closed}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)
                if self._closed.done():
                    os.close(self._fd)

    async def send_eof(self) -> None:
        """Signal the end of input after pending writes."""
        if self._is_terminal:
            await self.write(_END_OF_TRANSMISSION)
        else:
            async with self._write_lock:
                pass  # pending writers
            self.close()

    def resize(self, columns: int, rows: int) -> None:
        if self._is_terminal and not self._closed.done():
            fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        """Pending writers give up and close the descriptor, which must not be reused before the
        event loop has removed it.
        """
        if not self._closed.done():
            self._closed.set_result(None)
            if not self._write_lock.locked():
                os.close(self._fd)


@dataclass(frozen=True, slots=True)
class ProcessStdio:
    """Both ends: `child_fds` for the process, `stdin` and `outputs` (by stream number) for us."""

    child_fds: tuple[int, int, int]
    stdin: ProcessInput | None
    outputs: Mapping[int, int]

    def close_child_fds(self) -> None:
        for fd in set(self.child_fds):
            os.close(fd)

    def close(self) -> None:
        for fd in self.outputs.values():
            os.close(fd)
        if self.stdin is not None:
            self.stdin.close()


def open_stdio(*, stdin: bool, tty: bool) -> ProcessStdio:
    """Standard streams for a new process. Our ends are non-blocking."""
    return _open_terminal() if tty else _open_pipes(stdin)


def _open_terminal() -> ProcessStdio:
    ours, theirs = os.openpty()
    output = os.dup(ours)
    os.set_blocking(ours, False)
    return ProcessStdio((theirs, theirs, theirs), ProcessInput(ours, is_terminal=True), {1: output})


def _open_pipes(stdin: bool) -> ProcessStdio:
    out, their_out = os.pipe()
    err, their_err = os.pipe()
    for fd in (out, err):
        os.set_blocking(fd, False)
    if not stdin:
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return ProcessStdio((nothing, their_out, their_err), None, {1: out, 2: err})
    their_in, into = os.pipe()
    os.set_blocking(into, False)
    given = ProcessInput(into, is_terminal=False)
    return ProcessStdio((their_in, their_out, their_err), given, {1: out, 2: err})
