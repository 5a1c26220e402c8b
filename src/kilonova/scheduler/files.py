"""Snapshot files: a picture as JSON, packed by gzip where the name ends in `.gz`.

Fields are those of the values in `core`. Shapes and layouts, which many pods and nodes share, are
written once and meant by their number. Equal pictures give equal bytes.
"""

import gzip
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.devices import Layout
from kilonova.scheduler.picture import Picture

KIND = "kilonova-snapshot"
VERSION = 1

_PACKED = b"\x1f\x8b"
_NUMBER = "#"
_TABLES = {"shape": "shapes", "layout": "layouts"}


class UnreadableFile(Exception):
    """A file that is no snapshot, or one that this version can not read."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def save(picture: Picture, path: Path) -> None:
    """Writes a file: all of it, or none where something fails."""
    text = written(picture)
    if path.name.endswith(".gz"):
        text = gzip.compress(text, mtime=0)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(text)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def load(path: Path) -> Picture:
    """Reads a file; `UnreadableFile` says where it is damaged, `OSError` why it can not be had."""
    return read(path.read_bytes(), path)


def written(picture: Picture) -> bytes:
    """A picture as text."""
    tables: dict[str, dict[bytes, int]] = {name: {} for name in _TABLES.values()}
    content = _referring(msgspec.to_builtins(picture, order="deterministic"), tables)
    whole: JsonObject = {
        "kind": KIND,
        "version": VERSION,
        **{name: list(map(msgspec.Raw, table)) for name, table in tables.items()},
        **content,
    }
    return msgspec.json.encode(whole, order="deterministic") + b"\n"


def read(text: bytes, path: Path) -> Picture:
    """A picture from text; errors name the path."""
    whole = _decoded(text, path)
    if whole.get("kind") != KIND:
        raise UnreadableFile(path, f"is no snapshot: its kind is not {KIND!r}")
    version = whole.get("version")
    if version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        advice = "read it with a newer kilonova" if newer else "save it anew"
        raise UnreadableFile(
            path, f"is of version {version!r}, and this is kilonova for {VERSION}: {advice}"
        )
    try:
        shapes = msgspec.convert(whole.pop("shapes", ()), tuple[Shape, ...])
        layouts = msgspec.convert(whole.pop("layouts", ()), tuple[Layout, ...])
        tables: dict[str, tuple[Any, ...]] = {"shape": shapes, "layout": layouts}
        return msgspec.convert(_resolved(whole, tables), Picture)
    except (msgspec.ValidationError, _Dangling) as error:
        raise UnreadableFile(path, f"is damaged: {error}") from error


def _decoded(text: bytes, path: Path) -> JsonObject:
    try:
        if text.startswith(_PACKED):
            text = gzip.decompress(text)
        found = msgspec.json.decode(text)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableFile(path, f"is damaged: it can not be unpacked ({error})") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableFile(path, f"is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise UnreadableFile(path, "is no snapshot: there is no object in it")
    return cast(JsonObject, found)


class _Dangling(Exception):
    """A number that stands for nothing."""


Entry = tuple[str, Any]


def _referring(value: Any, tables: dict[str, dict[bytes, int]]) -> Any:
    """A value in which shapes and layouts are numbers, under keys that no label can have."""

    def numbered(key: str, inner: Any) -> Entry | None:
        if key not in _TABLES or not isinstance(inner, dict):
            return None
        table = tables[_TABLES[key]]
        text = msgspec.json.encode(_mapped(inner, _as_it_is), order="deterministic")
        return f"{_NUMBER}{key}", table.setdefault(text, len(table))

    return _mapped(value, numbered)


def _resolved(value: Any, tables: dict[str, tuple[Any, ...]]) -> Any:
    """The same, with what the numbers stand for."""

    def meant(key: str, inner: Any) -> Entry | None:
        if not key.startswith(_NUMBER):
            return None
        name = key.removeprefix(_NUMBER)
        table = tables.get(name, ())
        if not isinstance(inner, int) or not 0 <= inner < len(table):
            raise _Dangling(f"there is no {name} of number {inner!r}, but {len(table)} of them")
        return name, table[inner]

    return _mapped(value, meant)


def _as_it_is(_key: str, _inner: Any) -> None:
    """Replaces no entry."""


def _mapped(value: Any, replaced: Callable[[str, Any], Entry | None]) -> Any:
    """A tree in which some entries are replaced, and not gone into. Hashes are left out: each
    process has its own."""
    if isinstance(value, dict):
        entries = (
            replaced(key, inner) or (key, _mapped(inner, replaced))
            for key, inner in cast(JsonObject, value).items()
            if key != "_hash"
        )
        return dict(entries)
    if isinstance(value, list | tuple):
        return [_mapped(each, replaced) for each in cast(list[Any], value)]
    return value
