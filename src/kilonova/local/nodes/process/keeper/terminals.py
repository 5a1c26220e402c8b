"""Standard input and output of a process: pipes, or a terminal."""

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import Mapping
from dataclasses import dataclass

from kilonova.local.nodes.process.keeper.waiting import write_all

_END_OF_TRANSMISSION = b"\x04"


@dataclass(slots=True)
class Input:
    """What is written to a process. Writers take turns."""

    fd: int
    is_terminal: bool
    _turn: asyncio.Lock
    _closed: bool = False

    async def write(self, data: bytes) -> None:
        """Waits while the process does not read; what nobody will read is dropped."""
        async with self._turn:
            if not self._closed:
                with contextlib.suppress(OSError):
                    await write_all(self.fd, data)

    async def end(self) -> None:
        """The process has read all it will get."""
        if self.is_terminal:
            await self.write(_END_OF_TRANSMISSION)
        else:
            async with self._turn:
                self.close()

    def resize(self, columns: int, rows: int) -> None:
        if self.is_terminal and not self._closed:
            fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            os.close(self.fd)


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
    return Stdio((theirs, theirs, theirs), Input(ours, True, asyncio.Lock()), {1: output})


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
    given = Input(into, False, asyncio.Lock())
    return Stdio((their_in, their_out, their_err), given, {1: out, 2: err})
