"""A layer: a folder as a tar file that depends on nothing but names, contents and modes."""

import gzip
import hashlib
import io
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path

_COMPRESSION_LEVEL = 4
"""3% larger than by the default, in half of the time."""


@dataclass(frozen=True)
class Layer:
    """A compressed layer; `diff_id` is the digest of the tar file in it."""

    content: bytes
    diff_id: str
    created_by: str


def build_layer(folder: Path, created_by: str) -> Layer:
    """The files, links and folders below `folder`, owned by root, as of 1970."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            _add(tar, path, str(path.relative_to(folder)))
    content = plain.getvalue()
    return Layer(
        content=gzip.compress(content, _COMPRESSION_LEVEL, mtime=0),
        diff_id=f"sha256:{hashlib.sha256(content).hexdigest()}",
        created_by=created_by,
    )


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    entry = tarfile.TarInfo(name)
    status = path.lstat()
    if path.is_symlink():
        entry.type = tarfile.SYMTYPE
        entry.mode = 0o777
        entry.linkname = os.readlink(path)
        tar.addfile(entry)
    elif path.is_dir():
        entry.type = tarfile.DIRTYPE
        entry.mode = status.st_mode & 0o7777
        tar.addfile(entry)
    else:
        entry.mode = 0o755 if status.st_mode & 0o100 else 0o644
        entry.size = status.st_size
        with path.open("rb") as file:
            tar.addfile(entry, file)
