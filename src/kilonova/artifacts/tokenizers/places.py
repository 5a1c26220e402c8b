"""Where tokenizers are: a directory with a folder for each, S3 likewise, or tags of a registry."""

import asyncio
import os
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from kilonova.artifacts.tokenizers.cache_info import CACHE_INFO_FILE, Files, is_file_name
from kilonova.artifacts.tokenizers.errors import (
    InvalidTokenizer,
    TokenizerError,
    TokenizerNotFound,
    TokenizerUnavailable,
)
from kilonova.artifacts.tokenizers.names import is_normalised
from kilonova.objectstore import NotFound, ObjectStore, ObjectStoreError, ObjectTooLarge

MAX_FILE_BYTES = 256 * 1024 * 1024
"""A tokenizer of a large vocabulary has 20 to 40 MB."""

T = TypeVar("T")


class TokenizerPlace(ABC):
    """Files of tokenizers, by normalised name. Methods raise `TokenizerError`s."""

    name: str

    @abstractmethod
    async def list(self) -> tuple[str, ...]:
        """The normalised names of all tokenizers, sorted."""

    @abstractmethod
    async def read(self, key: str) -> Files:
        """All files of a tokenizer; `TokenizerNotFound` if there is none."""

    @abstractmethod
    async def write(self, key: str, files: Files) -> None:
        """Write a tokenizer, in place of a former one."""

    @abstractmethod
    async def close(self) -> None:
        """Close connections."""

    def locate(self, key: str) -> str:
        """The place of a tokenizer, for errors."""
        return f"{self.name}/{key}"


class DirectoryPlace(TokenizerPlace):
    """Tokenizers in a directory: the one that runtimes read."""

    def __init__(self, directory: Path) -> None:
        self.name = str(directory)
        self._directory = directory

    async def list(self) -> tuple[str, ...]:
        def read_names() -> tuple[str, ...]:
            found = (each.name for each in self._directory.iterdir() if each.is_dir())
            return tuple(sorted(filter(is_normalised, found)))

        return await self._run(self.name, read_names)

    async def read(self, key: str) -> Files:
        folder = self._directory / key
        if not await asyncio.to_thread(folder.is_dir):
            raise missing_tokenizer(self, key)
        return await self._run(str(folder), lambda: read_folder(folder))

    async def write(self, key: str, files: Files) -> None:
        await self._run(self.locate(key), lambda: _replace_folder(self._directory / key, files))

    async def close(self) -> None:
        """Nothing is held between calls."""

    async def _run(self, where: str, operation: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(operation)
        except OSError as error:
            problem = (error.strerror or str(error)).lower()
            fix = "check the directory and its permissions"
            raise TokenizerUnavailable(where, problem, fix) from error


class StoredPlace(TokenizerPlace):
    """Tokenizers as objects of a store: `org_model/tokenizer.json`."""

    def __init__(self, store: ObjectStore) -> None:
        self.name = store.name
        self._store = store

    async def list(self) -> tuple[str, ...]:
        try:
            keys = {each.key.partition("/")[0] async for each in self._store.list()}
        except ObjectStoreError as error:
            raise translate_store_error(error) from error
        return tuple(sorted(filter(is_normalised, keys)))

    async def read(self, key: str) -> Files:
        files: dict[str, bytes] = {}
        try:
            async for each in self._store.list(f"{key}/"):
                found = await self._store.get(each.key, max_bytes=MAX_FILE_BYTES)
                files[each.key.removeprefix(f"{key}/")] = found.body
        except ObjectStoreError as error:
            raise translate_store_error(error) from error
        if not files:
            raise missing_tokenizer(self, key)
        return files

    async def write(self, key: str, files: Files) -> None:
        try:
            former = {each.key async for each in self._store.list(f"{key}/")}
            # What lists the files comes last: until then, the former one does not match.
            for name in sorted(files, key=lambda each: each == CACHE_INFO_FILE):
                await self._store.put(f"{key}/{name}", files[name])
            for name in former - {f"{key}/{name}" for name in files}:
                await self._store.delete(name)
        except ObjectStoreError as error:
            raise translate_store_error(error) from error

    async def close(self) -> None:
        await self._store.close()


def missing_tokenizer(place: TokenizerPlace, key: str) -> TokenizerNotFound:
    """The error for a tokenizer that is not in a place."""
    fix = "add it with `kilonova tokenizers add`, or correct the name"
    return TokenizerNotFound(place.locate(key), "there is no such tokenizer", fix)


def translate_store_error(error: ObjectStoreError) -> TokenizerError:
    """The error of tokenizers for one of an object store."""
    kind = TokenizerUnavailable
    if isinstance(error, ObjectTooLarge):
        kind = InvalidTokenizer
    elif isinstance(error, NotFound) and not error.fix:
        kind = TokenizerNotFound
    return kind(error.where, error.problem, error.fix)


def read_folder(folder: Path) -> Files:
    """The files of a folder, without those of folders in it. Blocking."""
    files: dict[str, bytes] = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and is_file_name(path.name):
            files[path.name] = read_file(path)
    return files


def read_file(path: Path) -> bytes:
    """The content of a file. Blocking."""
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        problem = f"it has more than {MAX_FILE_BYTES} bytes"
        raise InvalidTokenizer(str(path), problem, "check that it is a file of a tokenizer")
    return content


def _replace_folder(folder: Path, files: Files) -> None:
    """Put a complete folder in the place of the former one."""
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    former = draft.with_name(f"{draft.name}.former")
    draft.mkdir(parents=True)
    try:
        for name, content in files.items():
            (draft / name).write_bytes(content)
        if folder.exists():
            os.rename(folder, former)
        os.rename(draft, folder)
    finally:
        for each in (draft, former):
            shutil.rmtree(each, ignore_errors=True)
