"""A lock between processes, on a file. It ends with its process, however that ends."""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_POLL_SECONDS = 0.005


class LockTimeout(Exception):
    """Another process holds the lock for too long: it may be suspended."""


@contextmanager
def hold_lock(path: Path, timeout: float) -> Generator[None]:
    """Hold the lock; blocks the calling thread until it is free.

    Each call opens the file again, so that threads of one process exclude each other, too.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _acquire(descriptor, path, timeout)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, path: Path, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise LockTimeout(f"{path} is locked by another process") from None
            time.sleep(_POLL_SECONDS)
