"""The folder in which a download is assembled, inside of the directory that it goes to. Blocking.

    .kilonova-models.lock           held by the process that downloads
    .kilonova-download/journal      files that are complete
    .kilonova-download/files/…      those files
    .kilonova-download/parts/N      files that are being fetched
    .kilonova-download/replaced/N   what was there before

It is in the same file system, so that a folder is published by a rename, and is removed at the end:
servers take every folder of a repository for a model.
"""

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import BinaryIO

from kilonova.kube.observability.structured_logging import get_logger
from kilonova.objectstore.directory.lock import LockTimeout, hold_lock
from kilonova.serving.repositories.errors import RepositoryError
from kilonova.serving.repositories.record import DownloadedFile, Journal
from kilonova.serving.repositories.sources import OWN_PREFIX, PIECE_BYTES

STAGING = f"{OWN_PREFIX}-download"
LOCK = f"{OWN_PREFIX}-models.lock"
_LOCK_POLL_SECONDS = 0.5

_log = get_logger(__name__)


class Staging:
    """The folder of a download; use it inside of `open_staging`."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self._folder = target / STAGING
        self._files = self._folder / "files"
        self._parts = self._folder / "parts"
        self._replaced = self._folder / "replaced"
        self.journal = Journal(self._folder / "journal")
        self._numbers = count()

    def prepare(self) -> None:
        """Create the folders; remove files that were not complete."""
        if self._folder.is_symlink():
            problem = "it is a symbolic link, and downloads are assembled there"
            raise RepositoryError(str(self._folder), problem, "remove it")
        self._folder.mkdir(exist_ok=True)
        for each in (self._parts, self._replaced):
            shutil.rmtree(each, ignore_errors=True)
            each.mkdir()
        self._files.mkdir(exist_ok=True)

    def create_part(self) -> tuple[Path, BinaryIO]:
        """A new file to write."""
        path = self._parts / str(next(self._numbers))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        return path, os.fdopen(descriptor, "wb", buffering=0)

    def finish_part(self, part: Path, path: str, file: DownloadedFile) -> None:
        """A file is complete and verified."""
        place = self.locate(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        part.replace(place)
        self.journal.append({path: file})

    def locate(self, path: str) -> Path:
        """Where a complete file is."""
        return self._files / path

    def replace(self, path: str) -> None:
        """Put a complete file or folder into the directory, in the place of a former one. Readers
        see the former one, none, or this one; never a part of it."""
        place = self.target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        self.take_away(path)
        self.locate(path).rename(place)

    def take_away(self, path: str) -> None:
        """Take a file or folder out of the directory, and folders that are empty then."""
        place = self.target / path
        if not place.is_symlink() and not place.exists():
            return
        place.rename(self._replaced / str(next(self._numbers)))
        parent = place.parent
        while parent != self.target and not any(parent.iterdir()):
            parent.rmdir()
            parent = parent.parent

    def remove(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self._folder, ignore_errors=True)


@asynccontextmanager
async def open_staging(target: Path) -> AsyncGenerator[Staging]:
    """The staging folder of a directory, which is created. One process has it at a time: another
    pod of the node that downloads the same is waited for, and then all is there."""
    await asyncio.to_thread(target.mkdir, parents=True, exist_ok=True)
    with ExitStack() as lock:
        while True:
            try:
                lock.enter_context(hold_lock(target / LOCK, timeout=0))
            except LockTimeout:
                _log.info("waiting for another download", directory=str(target))
                await asyncio.sleep(_LOCK_POLL_SECONDS)
            else:
                break
        staging = Staging(target)
        await asyncio.to_thread(staging.prepare)
        yield staging


def read_file_state(path: Path) -> DownloadedFile | None:
    """Size and SHA-256 of a regular file; None if there is none. `identity` is left empty."""
    hasher, size = hashlib.sha256(), 0
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        try:
            while piece := file.read(PIECE_BYTES):
                hasher.update(piece)
                size += len(piece)
        except (OSError, TypeError):  # a folder, or a pipe
            return None
    return DownloadedFile(size, "", hasher.hexdigest())
