"""Reading a run's log: files of lines `TIME stdout|stderr F|P TEXT`, the latest and older ones.

What is put aside because it is large is `LOG.1`, then `LOG.2` and so on.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from kilonova.api.times import later, parse_time
from kilonova.local.kubelets import LogRequest

_CHUNK = 256 * 1024
_LOOK_AGAIN = 0.1


async def read_log(
    path: Path, wanted: LogRequest, now: datetime, is_running: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """The lines that were asked for. Following ends with the container, when all is read."""
    shown = _Shown(wanted, now)
    reading = _Reading(path, wanted.tail)
    try:
        while True:
            # Asked before reading: what a container wrote is in its log before it has ended.
            more_to_come = wanted.follow and is_running()
            some = False
            for lines in reading.chunks():
                some = True
                text = b"".join(shown.texts(lines))
                if text:
                    yield text
                if shown.is_full:
                    return
                await asyncio.sleep(0)
            if not more_to_come:
                rest = reading.rest()
                if rest:
                    yield b"".join(shown.texts([rest]))
                return
            if not some:
                await asyncio.sleep(_LOOK_AGAIN)
    finally:
        reading.close()


def last_lines(path: Path, *, lines: int, most: int) -> bytes:
    """The end of a log, without times: at most so many lines and bytes."""
    request = LogRequest("", False, False, False, lines, None)
    shown = _Shown(request, datetime.max)
    reading = _Reading(path, lines)
    try:
        text = b"".join(b"".join(shown.texts(each)) for each in reading.chunks())
    finally:
        reading.close()
    return text[-most:]


class _Shown:
    """From lines in a log to what a client sees."""

    def __init__(self, wanted: LogRequest, now: datetime) -> None:
        self._timestamps = wanted.timestamps
        self._left = wanted.limit_bytes
        self._since = wanted.since
        if wanted.since_seconds is not None:
            self._since = later(now, -wanted.since_seconds)
        self._in_line = False

    @property
    def is_full(self) -> bool:
        return self._left is not None and self._left <= 0

    def texts(self, lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            fields = line.split(b" ", 3)
            if len(fields) != 4 or self.is_full:
                continue
            time, _, tag, text = fields
            if self._since is not None and parse_time(time.decode()) < self._since:
                continue
            whole = not tag.startswith(b"P")
            shown = text + b"\n" if whole else text
            if self._timestamps and not self._in_line:
                shown = time + b" " + shown
            self._in_line = not whole
            if self._left is not None:
                shown = shown[: self._left]
                self._left -= len(shown)
            yield shown


class _Reading:
    """Goes through the files of a log, from the oldest wanted line on."""

    def __init__(self, path: Path, tail: int | None) -> None:
        self._path = path
        self._rest = b""
        self._file: BinaryIO | None = None
        older = sorted(path.parent.glob(f"{path.name}.[0-9]*"), key=_age, reverse=True)
        self._waiting = [each for each in (*older, path) if each.exists()]
        if tail is not None:
            self._skip_to(tail)

    def chunks(self) -> Iterator[list[bytes]]:
        """What there is now, as lists of whole lines."""
        while True:
            if self._file is None and not self._open_next():
                return
            assert self._file is not None
            data = self._file.read(_CHUNK)
            if data:
                *lines, self._rest = (self._rest + data).split(b"\n")
                yield lines
            elif self._is_superseded():
                self.close()
            else:
                return

    def rest(self) -> bytes:
        """A last line that was never ended."""
        return self._rest

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open_next(self) -> bool:
        path = self._waiting.pop(0) if self._waiting else self._path
        try:
            self._file = path.open("rb")
        except FileNotFoundError:
            return False
        return True

    def _is_superseded(self) -> bool:
        """Whether all is read of this file, and there is a younger one."""
        if self._waiting:
            return True
        assert self._file is not None
        try:
            return os.stat(self._path).st_ino != os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:
            return False

    def _skip_to(self, tail: int) -> None:
        """Begin where only so many lines are left."""
        left = tail
        for index in range(len(self._waiting) - 1, -1, -1):
            data = self._waiting[index].read_bytes()
            start = _start_of_last(data, left)
            if start is not None:
                self._waiting = self._waiting[index:]
                self._open_next()
                assert self._file is not None
                self._file.seek(start)
                return
            left = max(0, left - data.count(b"\n"))


def _start_of_last(data: bytes, lines: int) -> int | None:
    """Where the last lines begin; None where there are not more than so many."""
    if not lines:
        return len(data)
    position = len(data) - data.endswith(b"\n")
    for _ in range(lines):
        position = data.rfind(b"\n", 0, position)
        if position < 0:
            return None
    return position + 1


def _age(path: Path) -> int:
    return int(path.name.rpartition(".")[2])
