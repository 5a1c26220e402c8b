"""What lies where in the directory of a store, and the steps that change it. Blocking.

    models/llama/config.json -> ../../.kilonova/objects/KEYHASH/VERSION
    .kilonova/objects/KEYHASH/VERSION      content that never changes
    .kilonova/uploads/…                    content that is being written
    .kilonova/lock

A key is a symbolic link to its content, so that other programs can read objects as files. The name
of the content, its **version**, has the checksum and something unique: it is the ETag. One rename
of the link replaces content, checksum and ETag together. A crash before it leaves the old object
and an unused file, which the next write of the key removes; the content is on disk before the
rename. Files that other programs put into the directory are objects without a checksum.
"""

import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from kilonova.objectstore.checksums import Checksum
from kilonova.objectstore.interface import ObjectInfo
from kilonova.objectstore.keys import RESERVED_SEGMENT

_STALE_UPLOAD_SECONDS = 24 * 3600.0
_SHA256_DIGITS = 64


class DirectoryLayout:
    """The paths of a store. Methods that write must run under the lock, except for uploads."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._own = root / RESERVED_SEGMENT
        self._objects = self._own / "objects"
        self._uploads = self._own / "uploads"
        self.lock = self._own / "lock"

    def prepare(self) -> None:
        """Create the folders if they do not exist."""
        if self._uploads.exists() and self._objects.exists():
            return
        self._objects.mkdir(parents=True, exist_ok=True)
        self._uploads.mkdir(exist_ok=True)

    def remove_stale_uploads(self) -> None:
        """Remove what crashed writers left long ago."""
        for entry in os.scandir(self._uploads):
            with suppress(FileNotFoundError):
                if time.time() - entry.stat().st_mtime > _STALE_UPLOAD_SECONDS:
                    os.unlink(entry.path)

    def new_upload(self) -> Path:
        """The path of a file to write content to; no other writer uses it."""
        return self._uploads / secrets.token_hex(16)

    def describe(self, key: str) -> ObjectInfo:
        """What is stored under a key; FileNotFoundError if nothing is."""
        info, descriptor = self.open(key)
        os.close(descriptor)
        return info

    def open(self, key: str) -> tuple[ObjectInfo, int]:
        """The object and a descriptor of its content; later writes do not change it."""
        while True:
            path = self.root / key
            version = self._read_version(path)
            content = path if version is None else self._content_folder(key) / version
            try:
                descriptor = os.open(content, os.O_RDONLY | os.O_CLOEXEC)
            except NotADirectoryError:
                raise FileNotFoundError(key) from None
            except FileNotFoundError:
                if version is None or self._read_version(path) == version:
                    raise
                continue  # replaced between the two
            try:
                return _build_info(key, version, os.fstat(descriptor)), descriptor
            except BaseException:
                os.close(descriptor)
                raise

    def publish(self, key: str, upload: Path, sha256: str) -> ObjectInfo:
        """Make an upload the content of a key."""
        path, folder = self.root / key, self._content_folder(key)
        self._create_parents(path)
        version = f"{sha256}-{secrets.token_hex(8)}"
        folder.mkdir(exist_ok=True)
        content = folder / version
        os.rename(upload, content)
        _sync_folder(folder)
        link = self.new_upload()
        os.symlink(os.path.relpath(content, path.parent), link)
        try:
            os.rename(link, path)
        except OSError:
            os.unlink(link)
            os.unlink(content)
            raise
        _sync_folder(path.parent)
        for other in os.listdir(folder):
            if other != version:
                os.unlink(folder / other)
        return _build_info(key, version, os.stat(content))

    def remove(self, key: str) -> None:
        """Remove an object, and folders that are empty then."""
        path, folder = self.root / key, self._content_folder(key)
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            os.unlink(path)
            _sync_folder(path.parent)
            if folder.exists():
                for version in os.listdir(folder):
                    os.unlink(folder / version)
                folder.rmdir()
        for parent in path.parents:
            if parent == self.root:
                return
            try:
                parent.rmdir()
            except OSError:
                return  # has other objects, or does not exist

    def walk(self, prefix: str, after: str) -> Iterator[str]:
        """Keys that start with `prefix` and sort after `after`, in order."""
        folder = prefix.rpartition("/")[0]
        yield from self._walk_folder(f"{folder}/" if folder else "", prefix, after)

    def _walk_folder(self, folder: str, prefix: str, after: str) -> Iterator[str]:
        try:
            entries = list(os.scandir(self.root / folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        # A folder sorts as its keys do: with the slash that follows its name.
        names = {
            entry.name + ("/" if entry.is_dir(follow_symlinks=False) else ""): entry
            for entry in entries
        }
        for name in sorted(names):
            key = folder + name
            if key == f"{RESERVED_SEGMENT}/":
                continue
            if name.endswith("/"):
                is_before = key < after and not after.startswith(key)
                if not is_before and (key.startswith(prefix) or prefix.startswith(key)):
                    yield from self._walk_folder(key, prefix, after)
            elif key > after and key.startswith(prefix):
                yield key

    def _create_parents(self, path: Path) -> None:
        missing = [parent for parent in path.parents if not parent.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in missing:
            _sync_folder(parent.parent)

    def _content_folder(self, key: str) -> Path:
        return self._objects / hashlib.sha256(key.encode()).hexdigest()

    def _read_version(self, path: Path) -> str | None:
        """The version that a key's link names; None if it is no link of ours."""
        try:
            target = os.readlink(path)
        except (OSError, ValueError):
            return None
        folder, _, version = target.rpartition("/")
        return version if f"{RESERVED_SEGMENT}/objects/" in folder else None


def _build_info(key: str, version: str | None, found: os.stat_result) -> ObjectInfo:
    modified = datetime.fromtimestamp(found.st_mtime, UTC)
    if version is None:
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(key)
        etag = f"{found.st_mtime_ns:x}-{found.st_size:x}-{found.st_ino:x}"
        return ObjectInfo(key, found.st_size, etag, modified)
    checksum = Checksum("sha256", version[:_SHA256_DIGITS])
    return ObjectInfo(key, found.st_size, version, modified, checksum)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
