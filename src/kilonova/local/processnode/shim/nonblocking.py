"""Waiting for descriptors and children without threads."""

import asyncio
import os
import signal
from collections.abc import Callable


async def wait_readable(fd: int) -> None:
    """Wait until there is something to read, or EOF."""
    await _wait_for_event(fd, _loop().add_reader, _loop().remove_reader)


async def write_all(fd: int, data: bytes) -> None:
    """Write to a non-blocking descriptor; `OSError` if it has no reader any more."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            await _wait_for_event(fd, _loop().add_writer, _loop().remove_writer)


class ChildReaper:
    """Reports exit codes of children of this process, also of adopted ones."""

    def __init__(self) -> None:
        self._pending: dict[int, asyncio.Future[int]] = {}
        _loop().add_signal_handler(signal.SIGCHLD, self._reap)

    def wait_for_exit(self, pid: int) -> "asyncio.Future[int]":
        """The exit code, 128 + n for signal n. To be called right after the fork."""
        return self._pending.setdefault(pid, _loop().create_future())

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            code = os.waitstatus_to_exitcode(status)
            awaited = self._pending.pop(pid, None)
            if awaited is not None and not awaited.done():
                awaited.set_result(code if code >= 0 else 128 - code)


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def _wait_for_event(fd: int, add: Callable[..., None], remove: Callable[[int], bool]) -> None:
    happened = _loop().create_future()
    add(fd, lambda: happened.done() or happened.set_result(None))
    try:
        await happened
    finally:
        remove(fd)
