"""Reading the log of a run: CRI lines `TIME stdout|stderr F|P TEXT`, in rotated files.

Rotated files are `LOG.1` (the newest), `LOG.2` and so on.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from kilonova.api.times import add_seconds, parse_time
from kilonova.local.kubelet_api import LogRequest

_CHUNK = 256 * 1024
_POLL_SECONDS = 0.1


async def read_log(
    path: Path, request: LogRequest, now: datetime, is_running: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """The requested lines. Following ends once the container has ended and all is read."""
    shown = _LogFilter(request, now)
    reading = _LogReader(path, request.tail)
    try:
        while True:
            # Checked before reading: all output of a container is in its log before it is reported
            # ended.
            more_to_come = request.follow and is_running()
            some = False
            for lines in reading.read_chunks():
                some = True
                text = b"".join(shown.render_lines(lines))
                if text:
                    yield text
                if shown.is_full:
                    return
                await asyncio.sleep(0)
            if not more_to_come:
                rest = reading.unfinished_line()
                if rest:
                    yield b"".join(shown.render_lines([rest]))
                return
            if not some:
                await asyncio.sleep(_POLL_SECONDS)
    finally:
        reading.close()


def read_last_lines(path: Path, *, lines: int, max_bytes: int) -> bytes:
    """The last lines of a log, without timestamps, bounded in lines and bytes."""
    request = LogRequest("", False, False, False, lines, None)
    shown = _LogFilter(request, datetime.max)
    reading = _LogReader(path, lines)
    try:
        text = b"".join(b"".join(shown.render_lines(each)) for each in reading.read_chunks())
    finally:
        reading.close()
    return text[-max_bytes:]


class _LogFilter:
    """Converts lines of the log to what the client requested."""

    def __init__(self, request: LogRequest, now: datetime) -> None:
        self._timestamps = request.timestamps
        self._left = request.limit_bytes
        self._since = request.since
        if request.since_seconds is not None:
            self._since = add_seconds(now, -request.since_seconds)
        self._in_line = False

    @property
    def is_full(self) -> bool:
        return self._left is not None and self._left <= 0

    def render_lines(self, lines: list[bytes]) -> Iterator[bytes]:
        for line in lines:
            fields = line.split(b" ", 3)
            if len(fields) != 4 or self.is_full:
                continue
            time, _, tag, text = fields
            if self._since is not None and parse_time(time.decode()) < self._since:
                continue
            is_complete = not tag.startswith(b"P")
            shown = text + b"\n" if is_complete else text
            if self._timestamps and not self._in_line:
                shown = time + b" " + shown
            self._in_line = not is_complete
            if self._left is not None:
                shown = shown[: self._left]
                self._left -= len(shown)
            yield shown


class _LogReader:
    """Reads the files of a log in order, from the oldest requested line on."""

    def __init__(self, path: Path, tail: int | None) -> None:
        self._path = path
        self._unfinished = b""
        self._file: BinaryIO | None = None
        older = sorted(path.parent.glob(f"{path.name}.[0-9]*"), key=_rotation_number, reverse=True)
        self._pending_files = [each for each in (*older, path) if each.exists()]
        if tail is not None:
            self._skip_to_tail(tail)

    def read_chunks(self) -> Iterator[list[bytes]]:
        """What is available now, as lists of complete lines."""
        while True:
            if self._file is None and not self._open_next():
                return
            assert self._file is not None
            data = self._file.read(_CHUNK)
            if data:
                *lines, self._unfinished = (self._unfinished + data).split(b"\n")
                yield lines
            elif self._is_rotated():
                self.close()
            else:
                return

    def unfinished_line(self) -> bytes:
        """A last line without a newline."""
        return self._unfinished

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open_next(self) -> bool:
        path = self._pending_files.pop(0) if self._pending_files else self._path
        try:
            self._file = path.open("rb")
        except FileNotFoundError:
            return False
        return True

    def _is_rotated(self) -> bool:
        """Whether this file is read to its end and has been rotated."""
        if self._pending_files:
            return True
        assert self._file is not None
        try:
            return os.stat(self._path).st_ino != os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:
            return False

    def _skip_to_tail(self, tail: int) -> None:
        """Seek to the start of the last `tail` lines."""
        left = tail
        for index in range(len(self._pending_files) - 1, -1, -1):
            data = self._pending_files[index].read_bytes()
            start = _find_tail_start(data, left)
            if start is not None:
                self._pending_files = self._pending_files[index:]
                self._open_next()
                assert self._file is not None
                self._file.seek(start)
                return
            left = max(0, left - data.count(b"\n"))


def _find_tail_start(data: bytes, lines: int) -> int | None:
    """The offset of the last lines; None if there are not more lines than that."""
    if not lines:
        return len(data)
    position = len(data) - data.endswith(b"\n")
    for _ in range(lines):
        position = data.rfind(b"\n", 0, position)
        if position < 0:
            return None
    return position + 1


def _rotation_number(path: Path) -> int:
    return int(path.name.rpartition(".")[2])
