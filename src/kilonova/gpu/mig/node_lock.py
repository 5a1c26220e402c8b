"""One MIG engine per node: a lock file that ends with its process, however that ends."""

import contextlib
import fcntl
import os
from pathlib import Path


class EngineIsRunning(Exception):
    """Another engine manages the devices of this node."""

    def __init__(self, path: Path, owner: str) -> None:
        by = f" (process {owner})" if owner else ""
        super().__init__(
            f"another MIG engine{by} manages the GPUs of this node: {path} is locked. "
            "Stop it first; nothing was changed."
        )


class NodeLock:
    """The lock on a folder of state, held until `release`."""

    def __init__(self, path: Path) -> None:
        """Take the lock; `EngineIsRunning` if another process, or engine, has it."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(self._file, 32, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise EngineIsRunning(path, owner) from None
        with contextlib.suppress(OSError):  # the number is for people only
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._file)
