"""The object store in a directory. Files are read and written in threads."""

import asyncio
import errno
import hashlib
import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar

from kilonova.objectstore.checksums import create_hasher
from kilonova.objectstore.directory.layout import DirectoryLayout
from kilonova.objectstore.directory.lock import LockTimeout, hold_lock
from kilonova.objectstore.errors import (
    AccessDenied,
    ChecksumMismatch,
    InvalidKey,
    NotFound,
    ObjectStoreError,
    PreconditionFailed,
    StoreNotUsable,
    Unavailable,
)
from kilonova.objectstore.interface import (
    MAX_PAGE,
    ListPage,
    ObjectInfo,
    ObjectReader,
    ObjectStore,
    Precondition,
)
from kilonova.objectstore.keys import check_key, check_prefix
from kilonova.objectstore.streams import split_stream

T = TypeVar("T")

_PIECE_BYTES = 1024 * 1024
_LOCK_SECONDS = 15.0
"""How long a write waits for writes of others; each takes milliseconds."""


class DirectoryStore(ObjectStore):
    """Objects as files below a directory, which is created if it does not exist.

    A key cannot be a folder of another one: there is no `a` beside `a/b`.
    """

    def __init__(self, root: Path, *, lock_timeout: float = _LOCK_SECONDS) -> None:
        self.name = str(root)
        self._layout = DirectoryLayout(root)
        self._lock_timeout = lock_timeout
        self._is_swept = False

    async def head(self, key: str) -> ObjectInfo:
        return await self._run(key, lambda: self._layout.describe(key))

    @asynccontextmanager
    async def open(self, key: str) -> AsyncGenerator[ObjectReader]:
        info, descriptor = await self._run(key, lambda: self._layout.open(key))
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            yield _FileReader(self, info, file)

    async def put(self, key: str, body: bytes, when: Precondition | None = None) -> ObjectInfo:
        return await self._run(key, lambda: self._write(key, body, when))

    async def upload(
        self, key: str, body: AsyncIterable[bytes], when: Precondition | None = None
    ) -> ObjectInfo:
        upload, hasher = self._layout.new_upload(), hashlib.sha256()
        try:
            with await self._run(key, lambda: self._create_upload(upload)) as file:
                async for piece in split_stream(body, _PIECE_BYTES):

                    def append(piece: bytes = piece) -> None:
                        hasher.update(piece)
                        file.write(piece)

                    await self._run(key, append)
                await self._run(key, lambda: _sync(file))
            digest = hasher.hexdigest()
            return await self._run(key, lambda: self._publish(key, upload, digest, when))
        finally:
            await asyncio.shield(asyncio.to_thread(_remove_file, upload))

    async def delete(self, key: str) -> None:
        def remove() -> None:
            self._prepare()
            with hold_lock(self._layout.lock, self._lock_timeout):
                self._layout.remove(key)

        await self._run(key, remove)

    async def list_page(self, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> ListPage:
        def collect() -> ListPage:
            keys = list(islice(self._layout.walk(prefix, after), limit + 1))
            objects: list[ObjectInfo] = []
            for key in keys[:limit]:
                with suppress(FileNotFoundError):  # deleted meanwhile
                    objects.append(self._layout.describe(key))
            return ListPage(tuple(objects), keys[limit - 1] if len(keys) > limit else "")

        check_prefix(self.name, prefix)
        return await self._run(None, collect)

    async def close(self) -> None:
        """Nothing is held between calls."""

    async def read_piece(self, key: str, file: BinaryIO) -> bytes:
        """The next piece of an open file; empty at its end."""
        return await self._run(key, lambda: file.read(_PIECE_BYTES))

    def _write(self, key: str, body: bytes, when: Precondition | None) -> ObjectInfo:
        upload = self._layout.new_upload()
        try:
            with self._create_upload(upload) as file:
                file.write(body)
                _sync(file)
            return self._publish(key, upload, hashlib.sha256(body).hexdigest(), when)
        finally:
            _remove_file(upload)

    def _prepare(self) -> None:
        try:
            self._layout.prepare()
        except OSError as error:
            problem = f"the directory cannot be created: {(error.strerror or str(error)).lower()}"
            raise StoreNotUsable(self.name, problem, "check its path and permissions") from error

    def _create_upload(self, path: Path) -> BinaryIO:
        self._prepare()
        if not self._is_swept:
            self._layout.remove_stale_uploads()
            self._is_swept = True
        return open(path, "xb")

    def _publish(
        self, key: str, upload: Path, sha256: str, when: Precondition | None
    ) -> ObjectInfo:
        with hold_lock(self._layout.lock, self._lock_timeout):
            if when is not None:
                self._check(key, when)
            return self._layout.publish(key, upload, sha256)

    def _check(self, key: str, when: Precondition) -> None:
        try:
            current = self._layout.describe(key).etag
        except (FileNotFoundError, NotADirectoryError):
            current = None
        if current != when.etag:
            found = "there is no object" if current is None else f"its ETag is {current}"
            expected = "none" if when.etag is None else when.etag
            raise PreconditionFailed(f"{self.name}/{key}", f"{found}, expected {expected}")

    async def _run(self, key: str | None, operation: Callable[[], T]) -> T:
        """Run an operation on a key, or on all, in a thread, and translate its errors."""
        if key is not None:
            check_key(self.name, key)
        where = self.name if key is None else f"{self.name}/{key}"
        try:
            return await asyncio.to_thread(operation)
        except LockTimeout as error:
            fix = "see which process uses the directory, and whether it is suspended"
            raise Unavailable(where, str(error), fix) from error
        except OSError as error:
            raise _translate_error(where, error) from error


class _FileReader(ObjectReader):
    def __init__(self, store: DirectoryStore, info: ObjectInfo, file: BinaryIO) -> None:
        self.info = info
        self._store = store
        self._file = file

    async def __aiter__(self) -> AsyncIterator[bytes]:
        checksum = self.info.checksum
        hasher = None if checksum is None else create_hasher(checksum.algorithm)
        while piece := await self._store.read_piece(self.info.key, self._file):
            if hasher is not None:
                hasher.update(piece)
            yield piece
        if checksum is not None and hasher is not None and hasher.hexdigest() != checksum.digest:
            where = f"{self._store.name}/{self.info.key}"
            problem = f"its SHA-256 is {hasher.hexdigest()}, expected {checksum.digest}"
            raise ChecksumMismatch(where, problem, "restore or write the object again")


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _remove_file(path: Path) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)


def _translate_error(where: str, error: OSError) -> ObjectStoreError:
    text = error.strerror or str(error)
    if isinstance(error, FileNotFoundError):
        return NotFound(where, "there is no such object")
    if isinstance(error, PermissionError):
        return AccessDenied(where, text.lower(), "check the owner and mode of the directory")
    if isinstance(error, (NotADirectoryError, IsADirectoryError, FileExistsError)) or (
        error.errno == errno.ENOTEMPTY
    ):
        problem = "a part of the key names an object, or the key names a folder of objects"
        return InvalidKey(where, problem, "choose another key")
    return Unavailable(where, text.lower())
