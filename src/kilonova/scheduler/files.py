"""Snapshot files: a picture as JSON, packed by gzip where the name ends in `.gz`.

Fields are those of the values in `core`. Shapes and layouts, which many pods and nodes share, are
written once and meant by their number. Equal pictures give equal bytes.
"""

import gzip
import os
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
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
_ABSENT = object()


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
        # It tells who runs what where: it is its owner's to read.
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def load(path: Path) -> Picture:
    """Reads a file; `UnreadableFile` says where it is damaged, `OSError` why it can not be had."""
    return read(path.read_bytes(), path)


def written(picture: Picture) -> bytes:
    """A picture as text."""
    tables = _Tables()
    content: JsonObject = tables.plain(picture)
    whole = {
        "kind": KIND,
        "version": VERSION,
        "shapes": list(map(tables.plain, tables.shapes)),
        "layouts": list(map(tables.plain, tables.layouts)),
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
        _resolve(whole, {"shape": shapes, "layout": layouts})
        return msgspec.convert(whole, Picture)
    except (msgspec.ValidationError, _Dangling) as error:
        raise UnreadableFile(path, f"is damaged: {error}") from error


def _decoded(text: bytes, path: Path) -> JsonObject:
    try:
        if text.startswith(_PACKED):
            text = gzip.decompress(text)
        found = msgspec.json.decode(text)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableFile(path, f"is damaged: it can not be unpacked ({error})") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnreadableFile(path, f"is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise UnreadableFile(path, "is no snapshot: there is no object in it")
    return cast(JsonObject, found)


class _Dangling(Exception):
    """A number that stands for nothing."""


class _Tables:
    """Shapes and layouts, each once, and values in which they are numbers."""

    def __init__(self) -> None:
        self.shapes: dict[Shape, int] = {}
        self.layouts: dict[Layout, int] = {}

    def plain(self, value: Any) -> Any:
        """A value as JSON has it; numbers stand under keys that no label can have."""
        if value is None or isinstance(value, str | int | float):
            return value
        if isinstance(value, tuple | list):
            return [self.plain(each) for each in cast(list[Any], value)]
        if isinstance(value, dict):
            return {key: self.plain(each) for key, each in cast(JsonObject, value).items()}
        if not is_dataclass(value):
            return msgspec.to_builtins(value, order="deterministic")
        result: JsonObject = {}
        for name in _fields(type(value)):
            inner = getattr(value, name)
            if isinstance(inner, Shape):
                result[f"{_NUMBER}{name}"] = self.shapes.setdefault(inner, len(self.shapes))
            elif isinstance(inner, Layout):
                result[f"{_NUMBER}{name}"] = self.layouts.setdefault(inner, len(self.layouts))
            else:
                result[name] = self.plain(inner)
        return result


@cache
def _fields(type_: type) -> tuple[str, ...]:
    """What a value is made from; hashes are not, and each process has its own."""
    return tuple(field.name for field in fields(type_) if field.init)


def _resolve(whole: JsonObject, tables: Mapping[str, tuple[Any, ...]]) -> None:
    """Puts what numbers stand for into their places."""
    left: list[Any] = [whole]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            entries = cast(JsonObject, value)
            for name, table in tables.items():
                number = entries.pop(_NUMBER + name, _ABSENT)
                if number is _ABSENT:
                    continue
                if not isinstance(number, int) or not 0 <= number < len(table):
                    raise _Dangling(
                        f"there is no {name} of number {number!r}, but {len(table)} of them"
                    )
                entries[name] = table[number]
            left.extend(entries.values())
        elif isinstance(value, list):
            left.extend(cast(list[Any], value))
