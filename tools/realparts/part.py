"""What a part is, where it lies in the cache, and when it is complete."""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tools.realparts.progress import Progress

CURRENT = "current"
"""A link to the folder that was got last, beside it."""
_RECORD = "part.json"
_DIGEST_LENGTH = 12


class PartUnavailable(RuntimeError):
    """A part cannot be made on this machine; the message states what is missing and what to do."""


class Part(Protocol):
    """What `make real-parts` gets."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str:
        """The pinned version; of what is there, if the source does not pin one."""
        ...

    def find(self) -> Path | None:
        """Its folder (of a browser: its command), or None unless it is complete."""
        ...

    def get(self) -> Path:
        """Make it unless it is complete; raises `PartUnavailable`."""
        ...


class Source(Protocol):
    """Makes the files of a part."""

    @property
    def pins(self) -> bytes:
        """What the files are made from: another value is another folder."""
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """Files that a complete part has, relative to its folder."""
        ...

    def make(self, folder: Path, progress: Progress) -> str | None:
        """Make what `folder` lacks; returns the version if it is known only now."""
        ...


@dataclass(frozen=True)
class CachedPart:
    """A part in a folder of the user's cache.

    `variable` names an environment variable: a folder that it names is used instead, if complete.
    """

    name: str
    version: str
    source: Source
    variable: str = ""

    def find(self) -> Path | None:
        candidates = [self.folder]
        if given := os.environ.get(self.variable):
            candidates.insert(0, Path(given))
        return next((folder for folder in candidates if not self.list_missing(folder)), None)

    def get(self) -> Path:
        progress = Progress(self.name)
        given = os.environ.get(self.variable)
        if given and (missing := self.list_missing(Path(given))):
            progress.report(f"{self.variable}={given} has no {', '.join(missing)}: not used")
        found = self.find()
        if found is None:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            with _hold_lock(self.folder.parent / ".lock", progress):
                found = self.find() or self._make(progress)
        if found == self.folder:
            self._link_current()
        return found

    @property
    def folder(self) -> Path:
        """Where it lies when it is complete."""
        digest = hashlib.sha256(self.source.pins).hexdigest()[:_DIGEST_LENGTH]
        return cache_folder() / self.name / f"{self.version}-{digest}"

    def list_missing(self, folder: Path) -> list[str]:
        """The files that `folder` lacks."""
        return [name for name in self.source.files if not (folder / name).is_file()]

    def _link_current(self) -> None:
        link = self.folder.with_name(CURRENT)
        if link.is_symlink() and os.readlink(link) == self.folder.name:
            return
        new = self.folder.with_name(f".{CURRENT}.{os.getpid()}")
        new.symlink_to(self.folder.name)
        new.rename(link)

    def _make(self, progress: Progress) -> Path:
        partial = self.folder.with_name(f".{self.folder.name}.partial")
        partial.mkdir(exist_ok=True)
        started = time.monotonic()
        version = self.source.make(partial, progress) or self.version
        if missing := self.list_missing(partial):
            raise PartUnavailable(f"{self.name} {version} was made without {', '.join(missing)}")
        record = {"version": version, "seconds": round(time.monotonic() - started)}
        (partial / _RECORD).write_text(json.dumps(record) + "\n")
        if self.folder.exists():  # incomplete, or `find` had found it
            shutil.rmtree(self.folder)
        partial.rename(self.folder)
        return self.folder


def cache_folder() -> Path:
    """Where all parts lie."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "kilonova"


def read_recorded_version(folder: Path) -> str | None:
    """The version that was recorded when the part in `folder` was made."""
    try:
        return json.loads((folder / _RECORD).read_text())["version"]
    except OSError:
        return None


@contextmanager
def _hold_lock(path: Path, progress: Progress) -> Generator[None]:
    """Let one process at a time make a part; the lock ends with the process."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.report("another process is getting it: waiting")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
