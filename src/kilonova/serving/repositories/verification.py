"""Verifies a directory with a repository, by its manifest or by the record of its download."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kilonova.serving.repositories.errors import RepositoryError
from kilonova.serving.repositories.manifest import (
    MANIFEST,
    compute_digest,
    parse_manifest,
    verify_digest,
)
from kilonova.serving.repositories.record import RECORD, read_record
from kilonova.serving.repositories.staging import read_file_state


@dataclass(frozen=True, slots=True)
class Verified:
    """What was verified, and what is wrong."""

    files: int
    problems: tuple[str, ...]
    digest: str


async def verify_folder(folder: Path, checksum: str = "") -> Verified:
    """Verify all files of a directory; every one that is wrong is named.

    `RepositoryError` if the manifest does not have the checksum (`sha256:…`), or nothing specifies
    what the files are to be.
    """
    digest, expected = await asyncio.to_thread(_read_expected, folder)
    if checksum:
        verify_digest(str(folder / MANIFEST), digest, checksum)
    return Verified(
        len(expected), await asyncio.to_thread(_find_problems, folder, expected), digest
    )


def _read_expected(folder: Path) -> tuple[str, dict[str, str]]:
    path = folder / MANIFEST
    if path.is_file():
        content = path.read_bytes()
        return f"sha256:{compute_digest(content)}", parse_manifest(content, str(path))
    record = read_record(folder)
    if record.files:
        return record.digest, {name: each.sha256 for name, each in record.files.items()}
    fix = "write one with `kilonova models manifest`"
    raise RepositoryError(str(folder), f"it has neither {MANIFEST} nor {RECORD}", fix)


def _find_problems(folder: Path, expected: Mapping[str, str]) -> tuple[str, ...]:
    problems: list[str] = []
    for path, digest in expected.items():
        found = read_file_state(folder / path)
        if found is None:
            problems.append(f"{folder / path}: the file is missing")
        elif found.sha256 != digest:
            problems.append(f"{folder / path}: its SHA-256 is {found.sha256}, expected {digest}")
    return tuple(problems)
