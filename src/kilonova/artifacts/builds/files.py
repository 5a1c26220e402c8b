"""Builds in a directory and on S3: `ID.json`, and `ID.json.sha256` with its checksum.

Other tools read and write these files too, so they are plain ones. The checksum is written before
the file: a reader finds no build, or a complete one.
"""

import asyncio
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from kilonova.artifacts.builds.build import Build
from kilonova.artifacts.builds.checksums import build_checksum_file, verify_checksum
from kilonova.artifacts.builds.errors import (
    BuildError,
    BuildNotFound,
    BuildUnavailable,
    InvalidBuild,
)
from kilonova.artifacts.builds.parser import (
    MAX_BUILD_BYTES,
    check_build_id,
    encode_build,
    is_build_id,
    parse_build,
)
from kilonova.objectstore import (
    IF_ABSENT,
    NotFound,
    ObjectStore,
    ObjectStoreError,
    ObjectTooLarge,
    PreconditionFailed,
)

_SUFFIX, _CHECKSUM_SUFFIX = ".json", ".sha256"
T = TypeVar("T")


class BuildSource(ABC):
    """A place with builds. Methods raise `BuildError`s; any number of calls may run at once."""

    name: str

    @abstractmethod
    async def load(self, build_id: str) -> Build:
        """A build, verified and valid; `BuildNotFound` if there is none of this id."""

    @abstractmethod
    async def list(self) -> tuple[str, ...]:
        """The ids of all builds, sorted."""

    @abstractmethod
    async def save(self, build: Build) -> str:
        """Publish a build, and return its location. A build is immutable: `InvalidBuild` if there
        is another one of its id."""

    @abstractmethod
    async def close(self) -> None:
        """Close connections."""

    async def __aenter__(self) -> "BuildSource":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class DirectoryBuilds(BuildSource):
    """Builds in a directory."""

    def __init__(self, directory: Path) -> None:
        self.name = str(directory)
        self._directory = directory

    async def load(self, build_id: str) -> Build:
        check_build_id(build_id, self.name)
        path = self._directory / f"{build_id}{_SUFFIX}"
        return await asyncio.to_thread(_load_file, path, build_id)

    async def list(self) -> tuple[str, ...]:
        def read_names() -> tuple[str, ...]:
            return _select_ids(each.name for each in self._directory.iterdir())

        return await asyncio.to_thread(_translate_errors, self.name, read_names)

    async def save(self, build: Build) -> str:
        return str(await asyncio.to_thread(save_build, build, self._directory))

    async def close(self) -> None:
        """Nothing is held between calls."""


class StoredBuilds(BuildSource):
    """Builds as objects of a store."""

    def __init__(self, store: ObjectStore) -> None:
        self.name = store.name
        self._store = store

    async def load(self, build_id: str) -> Build:
        check_build_id(build_id, self.name)
        key = f"{build_id}{_SUFFIX}"
        where = f"{self.name}/{key}"
        content = await self._get(key, BuildNotFound(where, "there is no such build"))
        missing = _missing_checksum(where)
        verify_checksum(content, await self._get(f"{key}{_CHECKSUM_SUFFIX}", missing), where)
        return parse_build(content, where, build_id=build_id)

    async def list(self) -> tuple[str, ...]:
        try:
            # Builds are not below folders, but other objects may be.
            return _select_ids([each.key async for each in self._store.list()])
        except ObjectStoreError as error:
            raise translate_store_error(error) from error

    async def save(self, build: Build) -> str:
        content, key = _encode_valid(build), f"{build.id}{_SUFFIX}"
        where, checksum_key = f"{self.name}/{key}", f"{key}{_CHECKSUM_SUFFIX}"
        checksum = build_checksum_file(content, key)
        try:
            try:
                # Of several writers, the first to write the checksum has the id.
                await self._store.put(checksum_key, checksum, IF_ABSENT)
            except PreconditionFailed:
                verify_unchanged(where, (await self._store.get(checksum_key)).body, checksum)
            await self._store.put(key, content)
        except ObjectStoreError as error:
            raise translate_store_error(error) from error
        return where

    async def close(self) -> None:
        await self._store.close()

    async def _get(self, key: str, missing: BuildError) -> bytes:
        try:
            return (await self._store.get(key, max_bytes=MAX_BUILD_BYTES)).body
        except NotFound as error:
            # A fix is given where it is not the object that is missing, but the bucket.
            raise (translate_store_error(error) if error.fix else missing) from error
        except ObjectStoreError as error:
            raise translate_store_error(error) from error


def save_build(build: Build, directory: Path) -> Path:
    """Write a build and its checksum into a directory, which is created if it does not exist.

    Blocking. A build that is there already is left as it is; `InvalidBuild` if it is another one.
    """
    content = _encode_valid(build)
    path = directory / f"{build.id}{_SUFFIX}"

    def write() -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        if path.exists():
            verify_unchanged(str(path), path.read_bytes(), content)
        _replace_file(_checksum_path(path), build_checksum_file(content, path.name))
        _replace_file(path, content)
        return path

    return _translate_errors(str(path), write)


def verify_unchanged(where: str, present: bytes, content: bytes) -> None:
    """Raise `InvalidBuild` if another build has the id."""
    if present != content:
        fix = "give the build another id, or remove that one"
        raise InvalidBuild(where, "there is another build of this id", fix)


def translate_store_error(error: ObjectStoreError) -> BuildError:
    """The error of builds for one of an object store."""
    kind = InvalidBuild if isinstance(error, ObjectTooLarge) else BuildUnavailable
    return kind(error.where, error.problem, error.fix)


def _load_file(path: Path, build_id: str) -> Build:
    where = str(path)

    def read(path: Path, missing: BuildError) -> bytes:
        try:
            with path.open("rb") as file:
                return file.read(MAX_BUILD_BYTES + 1)
        except FileNotFoundError:
            raise missing from None

    def load() -> bytes:
        fix = "" if path.parent.is_dir() else "the directory does not exist: correct it"
        content = read(path, BuildNotFound(where, "there is no such build", fix))
        verify_checksum(content, read(_checksum_path(path), _missing_checksum(where)), where)
        return content

    return parse_build(_translate_errors(where, load), where, build_id=build_id)


def _translate_errors(where: str, operation: Callable[[], T]) -> T:
    try:
        return operation()
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        raise BuildUnavailable(where, problem, "check the directory and its permissions") from error


def _select_ids(names: Iterable[str]) -> tuple[str, ...]:
    ids = (each.removesuffix(_SUFFIX) for each in names if each.endswith(_SUFFIX))
    return tuple(sorted(filter(is_build_id, ids)))


def _encode_valid(build: Build) -> bytes:
    content = encode_build(build)
    parse_build(content, f"build {build.id[:60]}")
    return content


def _missing_checksum(where: str) -> InvalidBuild:
    fix = f"write {where.rpartition('/')[2]}{_CHECKSUM_SUFFIX} with `sha256sum`"
    return InvalidBuild(where, "it has no checksum", fix)


def _checksum_path(path: Path) -> Path:
    return path.with_name(path.name + _CHECKSUM_SUFFIX)


def _replace_file(path: Path, content: bytes) -> None:
    """Write a file as a whole: a reader sees the former content or this one."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
