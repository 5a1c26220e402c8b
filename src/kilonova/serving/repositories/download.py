"""Downloads a repository into a directory: verified, continued after a crash, published whole.

1. The files of the source are listed, with their checksums if its manifest has them.
2. Files that the directory has already, or that a former attempt fetched, are verified.
3. The others are fetched, some at a time, hashed while they are written, and verified.
4. Only then is anything published: each model as a whole folder, by a rename.
"""

import asyncio
import errno
import hashlib
import os
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from kilonova.api.serving.repositories import RepositoryLayout
from kilonova.kube import Backoff
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.serving.repositories.contents import Contents, read_contents
from kilonova.serving.repositories.errors import (
    FileDamaged,
    NoSpace,
    RepositoryError,
    RepositoryUnavailable,
)
from kilonova.serving.repositories.manifest import verify_digest
from kilonova.serving.repositories.publication import publish
from kilonova.serving.repositories.record import DownloadedFile, read_record
from kilonova.serving.repositories.sources import RepositorySource, SourceFile
from kilonova.serving.repositories.staging import Staging, open_staging, read_file_state

T = TypeVar("T")

DEFAULT_CONCURRENCY = 4
_ATTEMPTS = 5
_RETRY = Backoff(1.0, 30.0)

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PullOptions:
    """How to download."""

    layout: RepositoryLayout = "Triton"
    checksum: str = ""
    """The digest that the manifest must have: `sha256:…`."""
    max_bytes: int | None = None
    concurrency: int = DEFAULT_CONCURRENCY
    retry: Backoff = _RETRY
    """Between attempts to fetch a file, as long as its place does not answer."""


@dataclass(slots=True)
class Progress:
    """How far a download is."""

    files: int = 0
    bytes: int = 0
    done_files: int = 0
    done_bytes: int = 0
    kept_files: int = 0
    """Files that were there already."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """What was downloaded."""

    contents: Contents
    progress: Progress


async def pull_repository(
    source: RepositorySource,
    target: Path,
    options: PullOptions,
    progress: Progress | None = None,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Pulled:
    """Download a repository; `RepositoryError` if that fails, and then nothing was published.

    `progress` is updated as the download goes on.
    """
    _check_target(source, target)
    contents = await _retry(
        lambda: read_contents(source, options.layout, options.checksum), options, sleep
    )
    _check_limit(source, contents, options)
    progress = progress or Progress()
    progress.files, progress.bytes = len(contents.files), contents.size
    with _translate_errors(target):
        async with open_staging(target) as staging:
            download = _Download(source, staging, contents, options, progress, sleep)
            files = await download.run()
            await asyncio.to_thread(publish, staging, source.name, contents, files)
    return Pulled(contents, progress)


class _Download:
    """Makes all files complete, in the staging folder or in the directory."""

    def __init__(
        self,
        source: RepositorySource,
        staging: Staging,
        contents: Contents,
        options: PullOptions,
        progress: Progress,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._source = source
        self._staging = staging
        self._contents = contents
        self._options = options
        self._progress = progress
        self._sleep = sleep
        self._slots = asyncio.Semaphore(options.concurrency)
        self._files: dict[str, DownloadedFile] = {}

    async def run(self) -> dict[str, DownloadedFile]:
        """All files of the repository, as they are now."""
        record = await asyncio.to_thread(read_record, self._staging.target)
        journal = await asyncio.to_thread(self._staging.journal.read)
        missing: dict[str, SourceFile] = {}

        async def check(path: str, file: SourceFile) -> None:
            async with self._slots:
                if not await self._keep(path, file, record.files.get(path), journal.get(path)):
                    missing[path] = file

        await _run_all(check(path, file) for path, file in self._contents.files.items())
        self._check_disk(sum(each.size for each in missing.values()))
        await _run_all(self._fetch(path, file) for path, file in missing.items())
        return self._files

    async def _keep(
        self,
        path: str,
        file: SourceFile,
        published: DownloadedFile | None,
        fetched: DownloadedFile | None,
    ) -> bool:
        """Whether a file is there already, and is what it is to be."""
        places = (self._staging.locate(path), fetched), (self._staging.target / path, published)
        for place, known in places:
            if known is None or not _is_same(known, file):
                continue
            found = await asyncio.to_thread(read_file_state, place)
            if found is not None and (found.size, found.sha256) == (known.size, known.sha256):
                self._finish(path, known)
                self._progress.kept_files += 1
                self._progress.done_bytes += known.size
                return True
        return False

    def _check_disk(self, needed: int) -> None:
        free = shutil.disk_usage(self._staging.target).free
        if needed > free:
            problem = f"{needed} bytes are missing, and its disk has {free} bytes free"
            fix = "make space, or use a larger volume"
            raise NoSpace(str(self._staging.target), problem, fix)

    async def _fetch(self, path: str, file: SourceFile) -> None:
        damaged = 0

        async def attempt() -> None:
            nonlocal damaged
            try:
                await self._write(path, file)
            except FileDamaged as error:
                damaged += 1
                if damaged > 1:
                    raise
                # Damage on the way does not happen twice, damage in its place does.
                raise RepositoryUnavailable(error.where, error.problem, error.fix) from error

        async with self._slots:
            await _retry(attempt, self._options, self._sleep)

    async def _write(self, path: str, file: SourceFile) -> None:
        part, output = await asyncio.to_thread(self._staging.create_part)
        fetched = 0
        try:
            with output:
                writer = _PartWriter(output, self._staging.target / path)
                async with self._source.open(file) as pieces:
                    async for piece in pieces:
                        fetched += len(piece)
                        self._progress.done_bytes += len(piece)
                        self._check_size(file, fetched, is_whole=False)
                        await asyncio.to_thread(writer.append, piece)
                await asyncio.to_thread(writer.sync)
            self._check_size(file, fetched, is_whole=True)
            if file.sha256:
                verify_digest(self._source.locate(file.path), writer.digest, file.sha256)
            written = DownloadedFile(fetched, file.identity, writer.digest)
            await asyncio.to_thread(self._staging.finish_part, part, path, written)
        except BaseException:
            self._progress.done_bytes -= fetched
            part.unlink(missing_ok=True)
            raise
        self._finish(path, written)

    def _check_size(self, file: SourceFile, fetched: int, *, is_whole: bool) -> None:
        if fetched > file.size or (is_whole and fetched < file.size):
            more = "more" if fetched > file.size else "less"
            problem = f"it has {more} than the {file.size} bytes that were listed"
            raise FileDamaged(self._source.locate(file.path), problem, "pull again")

    def _finish(self, path: str, file: DownloadedFile) -> None:
        self._files[path] = file
        self._progress.done_files += 1


def _is_same(known: DownloadedFile, file: SourceFile) -> bool:
    """Whether a file was downloaded from the same content: by its SHA-256, if that is given."""
    if file.sha256:
        return known.sha256 == file.sha256
    return (known.identity, known.size) == (file.identity, file.size)


class _PartWriter:
    """Writes and hashes a file. Blocking."""

    def __init__(self, output: BinaryIO, path: Path) -> None:
        self._output = output
        self._path = path
        self._hasher = hashlib.sha256()

    @property
    def digest(self) -> str:
        """The SHA-256 of what was written."""
        return self._hasher.hexdigest()

    def append(self, piece: bytes) -> None:
        """Write a piece."""
        self._hasher.update(piece)
        with _translate_errors(self._path):
            rest = memoryview(piece)
            while rest:
                rest = rest[self._output.write(rest) :]

    def sync(self) -> None:
        """Wait until all is on the disk."""
        with _translate_errors(self._path):
            os.fsync(self._output.fileno())


def _check_target(source: RepositorySource, target: Path) -> None:
    """A download to the directory that it reads would change the repository."""
    if source.folder is None:
        return
    folder, into = (Path(os.path.realpath(each)) for each in (source.folder, target))
    if folder == into:
        problem = "it is the repository itself"
    elif into.is_relative_to(folder):
        problem = f"it is inside the repository {source.name}"
    elif folder.is_relative_to(into):
        problem = f"the repository {source.name} is inside it"
    else:
        return
    raise RepositoryError(str(target), problem, "download into another directory")


def _check_limit(source: RepositorySource, contents: Contents, options: PullOptions) -> None:
    if options.max_bytes is not None and contents.size > options.max_bytes:
        problem = f"it has {contents.size} bytes, more than the limit of {options.max_bytes}"
        raise NoSpace(source.name, problem, "raise objectStore.size, or --max-size")


async def _retry(
    work: Callable[[], Awaitable[T]],
    options: PullOptions,
    sleep: Callable[[float], Awaitable[None]],
) -> T:
    """Repeat what failed because a place did not answer."""
    for attempt in range(1, _ATTEMPTS):
        try:
            return await work()
        except RepositoryUnavailable as error:
            delay = options.retry.delay(attempt)
            _log.warning("download failed, will retry", error=str(error), delay=round(delay, 1))
            await sleep(delay)
    return await work()


async def _run_all(works: Iterable[Coroutine[None, None, None]]) -> None:
    """Run all at once; the first error ends the others."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


@contextmanager
def _translate_errors(place: Path) -> Generator[None]:
    """Errors of the disk that a download goes to."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            fix = "make space, or use a larger volume"
            raise NoSpace(str(place), "the disk is full", fix) from error
        problem = (error.strerror or str(error)).lower()
        where = str(error.filename or place)
        raise RepositoryError(where, problem, "check the directory and its permissions") from error
