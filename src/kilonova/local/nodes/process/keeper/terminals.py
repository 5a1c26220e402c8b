"""Standard input and output of a process: pipes, or a terminal."""

import asyncio
import fcntl
import os
import struct
import termios
from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.local.nodes.process.keeper.waiting import write_all

_END_OF_TRANSMISSION = b"\x04"


class Input:
    """What is written to a process. Writers take turns."""

    def __init__(self, fd: int, *, is_terminal: bool) -> None:
        self._fd = fd
        self._is_terminal = is_terminal
        self._turn = asyncio.Lock()
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def write(self, data: bytes) -> None:
        """Waits while the process does not read; what nobody will read is dropped."""
        async with self._turn:
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

    async def end(self) -> None:
        """The process has read all it will get."""
        if self._is_terminal:
            await self.write(_END_OF_TRANSMISSION)
        else:
            async with self._turn:
                pass  # whoever writes before
            self.close()

    def resize(self, columns: int, rows: int) -> None:
        if self._is_terminal and not self._closed.done():
            fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        """Whoever still writes gives up, and closes the descriptor: it must not be another's
        before the event loop has let it go."""
        if not self._closed.done():
            self._closed.set_result(None)
            if not self._turn.locked():
                os.close(self._fd)


@dataclass(frozen=True, slots=True)
class Stdio:
    """Both ends: `theirs` for the process, `input` and `outputs` (by stream number) for us."""

    theirs: tuple[int, int, int]
    input: Input | None
    outputs: Mapping[int, int]

    def close_theirs(self) -> None:
        for fd in set(self.theirs):
            os.close(fd)

    def close_ours(self) -> None:
        for fd in self.outputs.values():
            os.close(fd)
        if self.input is not None:
            self.input.close()


def open_stdio(*, stdin: bool, tty: bool) -> Stdio:
    """For a new process. Our ends do not block."""
    return _terminal() if tty else _pipes(stdin)


def _terminal() -> Stdio:
    ours, theirs = os.openpty()
    output = os.dup(ours)
    os.set_blocking(ours, False)
    return Stdio((theirs, theirs, theirs), Input(ours, is_terminal=True), {1: output})


def _pipes(stdin: bool) -> Stdio:
    out, their_out = os.pipe()
    err, their_err = os.pipe()
    for fd in (out, err):
        os.set_blocking(fd, False)
    if not stdin:
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        return Stdio((nothing, their_out, their_err), None, {1: out, 2: err})
    their_in, into = os.pipe()
    os.set_blocking(into, False)
    given = Input(into, is_terminal=False)
    return Stdio((their_in, their_out, their_err), given, {1: out, 2: err})
