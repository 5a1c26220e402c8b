"""What a container writes: from its pipes into its log, and to whoever is attached.

Each container has a thread for it, with bounded memory: a slow disk slows the container that
writes, by its pipe, and nobody else.
"""

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Mapping

from kilonova.local.nodes.process.keeper.lines import Lines, timestamp

LARGEST_LOG = 10 * 1024 * 1024
KEPT_LOGS = 3
"""Older ones beside the log: `LOG.1` is the youngest."""
_CHUNK = 64 * 1024
_LAST_WORDS = 1024 * 1024

Listener = Callable[[int, bytes], None]
"""Gets a stream (1 or 2) and what came; called from the output's thread."""


class Log:
    """A file that is put aside when it is large."""

    def __init__(self, path: str) -> None:
        self._path = path
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._open()

    def write(self, data: bytes) -> None:
        """Add whole lines. On a disk that takes no more they are lost, the container goes on."""
        with contextlib.suppress(OSError):
            if self._size > LARGEST_LOG:
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
        names = [self._path, *(f"{self._path}.{n}" for n in range(1, KEPT_LOGS + 1))]
        for older, younger in zip(reversed(names), reversed(names[:-1]), strict=False):
            with contextlib.suppress(FileNotFoundError):
                os.replace(younger, older)
        os.close(self._fd)
        self._open()


class Output:
    """Reads streams until they end, or until `finish`."""

    def __init__(self, streams: Mapping[int, int], log: Log) -> None:
        """`streams` are descriptors by stream number; the thread closes them and the log."""
        self._streams = dict(streams)
        self._log = log
        self._listeners: list[Listener] = []
        self._finish = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._done: Callable[[], object] = lambda: None
        for fd in self._streams.values():
            os.set_blocking(fd, False)

    def start(self, done: Callable[[], object]) -> None:
        """Begin; `done` is called from the thread when all is in the log."""
        self._done = done
        self._thread.start()

    def listen(self, listener: Listener) -> None:
        """Pass on what comes from now on."""
        self._listeners = [*self._listeners, listener]

    def ignore(self, listener: Listener) -> None:
        """No more for this one."""
        self._listeners = [each for each in self._listeners if each is not listener]

    def finish(self) -> None:
        """All writers are dead: take what is there, and end, also if somebody unknown holds on."""
        os.eventfd_write(self._finish, 1)

    def close(self) -> None:
        """After `done`."""
        os.close(self._finish)

    def _run(self) -> None:
        lines = {n: Lines("stdout" if n == 1 else "stderr") for n in self._streams}
        open_streams = {fd: n for n, fd in self._streams.items()}
        poll = select.poll()
        for fd in (self._finish, *open_streams):
            poll.register(fd, select.POLLIN)
        while open_streams:
            ready = {fd for fd, _ in poll.poll()}
            if self._finish in ready:
                for fd, stream in open_streams.items():
                    self._take_last(stream, fd, lines[stream])
                break
            for fd in ready:
                data = _read(fd)
                if data:
                    self._take(open_streams[fd], data, lines[open_streams[fd]])
                elif data is not None:
                    poll.unregister(fd)
                    del open_streams[fd]
        now = timestamp(time.time_ns())
        for each in lines.values():
            self._log.write(each.end(now))
        for fd in self._streams.values():
            os.close(fd)
        self._log.close()
        self._done()

    def _take_last(self, stream: int, fd: int, lines: Lines) -> None:
        taken = 0
        while taken < _LAST_WORDS and (data := _read(fd)):
            self._take(stream, data, lines)
            taken += len(data)

    def _take(self, stream: int, data: bytes, lines: Lines) -> None:
        self._log.write(lines.feed(data, timestamp(time.time_ns())))
        for listener in self._listeners:
            listener(stream, data)


def _read(fd: int) -> bytes | None:
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:  # a terminal that nobody has open any more
        return b""
