"""The table of parts: which are there, how large they are, and where they lie."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.realparts.part import Part, read_recorded_version

_MISSING = "missing"
_READY = "ready"


@dataclass(frozen=True)
class Row:
    """One part of the table; `bytes` is None for what the system has installed."""

    name: str
    version: str
    state: str
    bytes: int | None
    path: str


def list_parts(parts: Iterable[Part]) -> list[Row]:
    """A row for each part, in their order."""
    return [_describe(part) for part in parts]


def format_table(rows: Iterable[Row]) -> str:
    """Columns for people; large sizes in MB."""
    lines = [("NAME", "VERSION", "STATE", "SIZE", "PATH")]
    for row in rows:
        size = "-" if row.bytes is None else f"{row.bytes / 1e6:.0f} MB"
        lines.append((row.name, row.version, row.state, size, row.path or "-"))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "\n".join(line.rstrip() for line in padded)


def format_json(rows: Iterable[Row]) -> str:
    """The same for programs."""
    return json.dumps([asdict(row) for row in rows], indent=2)


def _describe(part: Part) -> Row:
    path = part.find()
    if path is None:
        return Row(part.name, part.version, _MISSING, None, "")
    size = _measure(path) if path.is_dir() else None
    version = read_recorded_version(path) or part.version
    return Row(part.name, version, _READY, size, str(path))


def _measure(folder: Path) -> int:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files)
