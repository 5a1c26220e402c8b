"""Container output: from pipes to the log, and to attached clients.

Each container has a thread for it, with bounded memory: a slow disk blocks the container that
writes, through its pipe, and no other.
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Mapping

from kilonova.local.processnode.shim.stdio.log_lines import LogLineSplitter, format_timestamp

MAX_LOG_SIZE = 10 * 1024 * 1024
MAX_ROTATED_LOGS = 3
"""Rotated files: `LOG.1` is the newest."""
_CHUNK = 64 * 1024
_MAX_FINAL_OUTPUT = 1024 * 1024

OutputListener = Callable[[int, bytes], None]
"""Called with a stream (1 or 2) and data, from the output's thread."""


class RotatingLog:
    """A log file that is rotated when it is large."""

    def __init__(self, path: str) -> None:
        self._path = path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._open()

    def write(self, data: bytes) -> None:
        """Append complete lines. On a full disk they are lost, and the container goes on."""
        with contextlib.suppress(OSError):
            if self._size > MAX_LOG_SIZE:
                self._rotate()
            self._size += len(data)
            while data:
                data = data[os.write(self._fd, data) :]

    def close(self) -> None:
        os.close(self._fd)

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o640)
        self._size = os.fstat(self._fd).st_size

    def _rotate(self) -> None:
        names = [self._path, *(f"{self._path}.{n}" for n in range(1, MAX_ROTATED_LOGS + 1))]
        for older, younger in zip(reversed(names), reversed(names[:-1]), strict=False):
            with contextlib.suppress(FileNotFoundError):
                os.replace(younger, older)
        os.close(self._fd)
        self._open()


class ContainerOutput:
    """Reads streams until they end, or until `finish`."""

    def __init__(self, streams: Mapping[int, int], log: RotatingLog) -> None:
        """`streams` are descriptors by stream number; the thread closes them and the log."""
        self._streams = dict(streams)
        self._log = log
        self._listeners: list[OutputListener] = []
        self._finish = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._done: Callable[[], object] = lambda: None
        for fd in self._streams.values():
            os.set_blocking(fd, False)

    def start(self, done: Callable[[], object]) -> None:
        """Start the thread; it calls `done` when all output is in the log."""
        self._done = done
        self._thread.start()

    def add_listener(self, listener: OutputListener) -> None:
        """Pass on output from now on."""
        self._listeners = [*self._listeners, listener]

    def remove_listener(self, listener: OutputListener) -> None:
        """Stop passing on output."""
        self._listeners = [each for each in self._listeners if each is not listener]

    def finish(self) -> None:
        """All writers have exited: read what is left, and end even if a process outside holds the
        pipe.
        """
        os.eventfd_write(self._finish, 1)

    def close(self) -> None:
        """Release resources; to be called after `done`."""
        os.close(self._finish)

    def _run(self) -> None:
        lines = {n: LogLineSplitter("stdout" if n == 1 else "stderr") for n in self._streams}
        open_streams = {fd: n for n, fd in self._streams.items()}
        poll = select.poll()
        for fd in (self._finish, *open_streams):
            poll.register(fd, select.POLLIN)
        while open_streams:
            ready = {fd for fd, _ in poll.poll()}
            if self._finish in ready:
                for fd, stream in open_streams.items():
                    self._drain_stream(stream, fd, lines[stream])
                break
            for fd in ready:
                data = _read_available(fd)
                if data:
                    self._write_chunk(open_streams[fd], data, lines[open_streams[fd]])
                elif data is not None:
                    poll.unregister(fd)
                    del open_streams[fd]
        now = format_timestamp(time.time_ns())
        for each in lines.values():
            self._log.write(each.flush(now))
        for fd in self._streams.values():
            os.close(fd)
        self._log.close()
        self._done()

    def _drain_stream(self, stream: int, fd: int, lines: LogLineSplitter) -> None:
        taken = 0
        while taken < _MAX_FINAL_OUTPUT and (data := _read_available(fd)):
            self._write_chunk(stream, data, lines)
            taken += len(data)

    def _write_chunk(self, stream: int, data: bytes, lines: LogLineSplitter) -> None:
        self._log.write(lines.split(data, format_timestamp(time.time_ns())))
        for listener in self._listeners:
            listener(stream, data)


def _read_available(fd: int) -> bytes | None:
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:  # EIO of a terminal that no process has open any more
        return b""
