"""Where a repository is read from: a folder, an object store, or an artifact of a registry."""

import asyncio
import errno
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kilonova.objectstore import ObjectStore, ObjectStoreError, S3Settings, S3Store
from kilonova.objectstore.locations import parse_location
from kilonova.objectstore.oci.location import OciLocation
from kilonova.serving.repositories.errors import (
    RepositoryError,
    RepositoryUnavailable,
    translate_store_error,
)

PIECE_BYTES = 1 << 20
OWN_PREFIX = ".kilonova"
"""Names at the top of a folder that begin so are ours, and no part of a repository."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a repository."""

    path: str
    size: int
    identity: str
    """What changes with the content: a digest, or the ETag of a store."""
    sha256: str = ""
    """What the content must have; empty if only the store knows a checksum."""


class RepositorySource(ABC):
    """A repository to read. Methods raise `RepositoryError`s; any number of calls at once."""

    name: str
    digest: str = ""
    """The digest of an artifact's manifest, once files were listed; empty for other sources."""
    folder: Path | None = None
    """The directory that the repository is; None for other sources."""

    @abstractmethod
    async def list_files(self) -> tuple[SourceFile, ...]:
        """All files."""

    @abstractmethod
    def open(self, file: SourceFile) -> AbstractAsyncContextManager[AsyncIterable[bytes]]:
        """The content of a file in pieces; checksums of the store are verified at its end."""

    @abstractmethod
    async def close(self) -> None:
        """Close connections."""

    def locate(self, path: str) -> str:
        """The place of a file, for errors."""
        return f"{self.name}/{path}"

    async def __aenter__(self) -> "RepositorySource":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def open_source(url: str) -> RepositorySource:
    """The repository in a directory (also `file://`), at `s3://BUCKET/PREFIX`, or the artifact
    `oci://REGISTRY/REPOSITORY:TAG`; nothing is read yet."""
    try:
        location = parse_location(url)
    except ObjectStoreError as error:
        raise translate_store_error(error) from error
    match location:
        case Path():
            return FolderSource(location)
        case S3Settings():
            return StoredSource(S3Store(location))
        case OciLocation():
            from kilonova.serving.repositories.artifacts import ArtifactSource  # loads aiohttp

            return ArtifactSource(location)


class StoredSource(RepositorySource):
    """A repository as objects of a store."""

    def __init__(self, store: ObjectStore) -> None:
        self.name = store.name
        self._store = store

    async def list_files(self) -> tuple[SourceFile, ...]:
        try:
            found = [
                SourceFile(each.key, each.size, each.etag)
                async for each in self._store.list()
                # Consoles of object stores make empty objects to show folders.
                if each.key and not (each.key.endswith("/") and not each.size)
            ]
        except ObjectStoreError as error:
            raise translate_store_error(error) from error
        return tuple(found)

    @asynccontextmanager
    async def open(self, file: SourceFile) -> AsyncGenerator[AsyncIterable[bytes]]:
        try:
            async with self._store.open(file.path) as reader:
                yield reader
        except ObjectStoreError as error:
            raise translate_store_error(error) from error

    async def close(self) -> None:
        await self._store.close()


class FolderSource(RepositorySource):
    """A repository in a directory. A symbolic link to a file in the directory is read as that file,
    as in Hugging Face's cache; one that leads out of it is refused."""

    def __init__(self, folder: Path) -> None:
        self.name = str(folder)
        self.folder = folder
        self._folder = folder

    async def list_files(self) -> tuple[SourceFile, ...]:
        def collect() -> tuple[SourceFile, ...]:
            return tuple(walk_folder(self._folder))

        return await asyncio.to_thread(collect)

    @asynccontextmanager
    async def open(self, file: SourceFile) -> AsyncGenerator[AsyncIterable[bytes]]:
        path = self._folder / file.path
        try:
            opened = await asyncio.to_thread(path.open, "rb", 0)
        except OSError as error:
            raise _translate_os_error(path, error) from error
        with opened:

            async def read() -> AsyncGenerator[bytes]:
                try:
                    while piece := await asyncio.to_thread(opened.read, PIECE_BYTES):
                        yield piece
                except OSError as error:
                    raise _translate_os_error(path, error) from error

            yield read()

    async def close(self) -> None:
        """Nothing is held between calls."""


def walk_folder(folder: Path) -> Iterator[SourceFile]:
    """The files below a folder, by path. Blocking."""
    root = os.path.realpath(folder)
    try:
        yield from _walk(root, root, "")
    except OSError as error:
        place = folder if error.filename in (None, root) else Path(error.filename)
        raise _translate_os_error(place, error) from error


def _walk(root: str, folder: str, prefix: str) -> Iterator[SourceFile]:
    for entry in sorted(os.scandir(folder), key=lambda each: each.name):
        if not prefix and entry.name.startswith(OWN_PREFIX):
            continue
        path = f"{prefix}{entry.name}"
        if entry.is_symlink() and not _is_inside(root, entry.path):
            problem = f"it is a symbolic link to {os.readlink(entry.path)}, outside of {root}"
            raise RepositoryError(entry.path, problem, "replace it by the file itself")
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(root, entry.path, f"{path}/")
            continue
        found = entry.stat()
        if not stat.S_ISREG(found.st_mode):
            problem = "it is neither a file nor a folder"
            if stat.S_ISDIR(found.st_mode):
                problem = "it is a symbolic link to a folder: only those to files are followed"
            raise RepositoryError(entry.path, problem, "remove it from the repository")
        identity = f"{found.st_mtime_ns:x}-{found.st_size:x}-{found.st_ino:x}"
        yield SourceFile(path, found.st_size, identity)


def _is_inside(root: str, path: str) -> bool:
    return os.path.commonpath([root, os.path.realpath(path)]) == root


def _translate_os_error(path: Path, error: OSError) -> RepositoryError:
    if isinstance(error, FileNotFoundError):
        return RepositoryError(str(path), "there is no such file or directory", "correct the path")
    if error.errno == errno.ELOOP:
        problem = "it is a symbolic link that leads to itself"
        return RepositoryError(str(path), problem, "replace it by the file itself")
    problem = (error.strerror or str(error)).lower()
    return RepositoryUnavailable(str(path), problem, "check the directory and its permissions")
