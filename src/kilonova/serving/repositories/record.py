"""What a directory has that was downloaded: a record at its top, and a journal of a download.

Both specify which content of the source a file is, so that it is not fetched again; that it still
is that content is verified by its SHA-256.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kilonova.serving.repositories.errors import RepositoryError
from kilonova.serving.repositories.manifest import check_path
from kilonova.serving.repositories.sources import OWN_PREFIX

RECORD = f"{OWN_PREFIX}-models.json"


class DownloadedFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that was downloaded and verified."""

    size: int
    identity: str
    """Of the source; see `SourceFile`."""
    sha256: str


class Record(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What was downloaded into a directory."""

    source: str = ""
    digest: str = ""
    files: dict[str, DownloadedFile] = {}
    models: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    """Models of the former download, which this one takes away."""


def read_record(folder: Path) -> Record:
    """The record of a directory; an empty one if nothing was downloaded, or it is damaged: then
    files are fetched again."""
    try:
        record = msgspec.json.decode((folder / RECORD).read_bytes(), type=Record)
        for path in filter(None, (*record.files, *record.models, *record.replaced)):
            check_path(path, str(folder / RECORD))
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError, RepositoryError):
        return Record()
    return record


def write_record(folder: Path, record: Record) -> None:
    """Replace the record."""
    draft = folder / f"{RECORD}.new"
    with draft.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record, order="sorted"), indent=1))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(folder / RECORD)


class _Line(msgspec.Struct, frozen=True, array_like=True):
    path: str
    file: DownloadedFile


@dataclass(slots=True)
class Journal:
    """The files that a download has finished, appended one by one."""

    path: Path

    def read(self) -> dict[str, DownloadedFile]:
        """The finished files; a line that was cut off is left out."""
        found: dict[str, DownloadedFile] = {}
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return found
        for line in filter(None, content.split(b"\n")):
            try:
                each = msgspec.json.decode(line, type=_Line)
            except msgspec.DecodeError:
                continue
            found[each.path] = each.file
        return found

    def append(self, files: Mapping[str, DownloadedFile]) -> None:
        """Add finished files. A line begins with its line feed: the former one may be cut off."""
        lines = [b"\n" + msgspec.json.encode(_Line(path, each)) for path, each in files.items()]
        with self.path.open("ab") as journal:
            journal.write(b"".join(lines))
