"""Snapshot files: a cluster snapshot as JSON, gzipped if the name ends in `.gz`.

The fields are those of core's dataclasses. Shapes and GPU layouts, which many pods and nodes share,
are written once and referred to by number. Equal snapshots give equal bytes.
"""

import gc
import gzip
import os
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.scheduler.core.gpu.layout import GpuLayout
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.library.snapshots.migration import migrate_from_version_1
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot

KIND = "kilonova-snapshot"
VERSION = 2

_GZIP_MAGIC = b"\x1f\x8b"
_REFERENCE_PREFIX = "#"
_ABSENT = object()


class InvalidSnapshotFile(Exception):
    """A file that is not a snapshot, or that this version cannot read."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def save_snapshot_file(cluster_snapshot: ClusterSnapshot, path: Path) -> None:
    """Write a file atomically."""
    text = encode_snapshot(cluster_snapshot)
    if path.name.endswith(".gz"):
        text = gzip.compress(text, mtime=0)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # It shows what runs in the cluster: only its owner may read it.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load_snapshot_file(path: Path) -> ClusterSnapshot:
    """Read a file; raises `InvalidSnapshotFile` for invalid content, `OSError` if it cannot be
    read."""
    return decode_snapshot(path.read_bytes(), path)


def encode_snapshot(cluster_snapshot: ClusterSnapshot) -> bytes:
    """Encode a snapshot."""
    tables = _SharedValueTables()
    content: JsonObject = tables.to_plain(cluster_snapshot)
    document = {
        "kind": KIND,
        "version": VERSION,
        "shapes": list(map(tables.to_plain, tables.shapes)),
        "layouts": list(map(tables.to_plain, tables.layouts)),
        **content,
    }
    return msgspec.json.encode(document, order="deterministic") + b"\n"


def decode_snapshot(text: bytes, path: Path) -> ClusterSnapshot:
    """Decode a snapshot; errors name the path."""
    with _paused_garbage_collection():
        return _decode(text, path)


@contextmanager
def _paused_garbage_collection() -> Generator[None]:
    """A snapshot is a hundred thousand objects and more, none of which is garbage: looking for some
    again and again would take most of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _decode(text: bytes, path: Path) -> ClusterSnapshot:
    document = _decode_json(text, path)
    if document.get("kind") != KIND:
        raise InvalidSnapshotFile(path, f"is not a snapshot: its kind is not {KIND!r}")
    version = document.get("version")
    if version == 1:
        migrate_from_version_1(document)
    elif version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        advice = "read it with a newer kilonova" if newer else "save it again"
        raise InvalidSnapshotFile(
            path,
            f"has version {version!r}, but this kilonova reads versions 1 and {VERSION}: {advice}",
        )
    try:
        shapes = msgspec.convert(document.pop("shapes", ()), tuple[Shape, ...])
        layouts = msgspec.convert(document.pop("layouts", ()), tuple[GpuLayout, ...])
        _resolve_references(document, {"shape": shapes, "layout": layouts})
        return msgspec.convert(document, ClusterSnapshot)
    except (msgspec.ValidationError, _DanglingReference) as error:
        raise InvalidSnapshotFile(path, f"is invalid: {error}") from error


def _decode_json(text: bytes, path: Path) -> JsonObject:
    try:
        if text.startswith(_GZIP_MAGIC):
            text = gzip.decompress(text)
        found = msgspec.json.decode(text)
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidSnapshotFile(
            path, f"is invalid: it cannot be decompressed ({error})"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSnapshotFile(path, f"is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidSnapshotFile(path, "is not a snapshot: it is not a JSON object")
    return cast(JsonObject, found)


class _DanglingReference(Exception):
    """A reference to a shape or layout that does not exist."""


class _SharedValueTables:
    """Tables of shapes and layouts, and values that refer to them by number."""

    def __init__(self) -> None:
        self.shapes: dict[Shape, int] = {}
        self.layouts: dict[GpuLayout, int] = {}

    def to_plain(self, value: Any) -> Any:
        """A value as JSON; references have keys that no label can have."""
        if value is None or isinstance(value, str | int | float):
            return value
        if isinstance(value, tuple | list):
            return [self.to_plain(each) for each in cast(list[Any], value)]
        if isinstance(value, dict):
            return {key: self.to_plain(each) for key, each in cast(JsonObject, value).items()}
        if not is_dataclass(value):
            return msgspec.to_builtins(value, order="deterministic")
        result: JsonObject = {}
        for name in _init_fields(type(value)):
            inner = getattr(value, name)
            if isinstance(inner, Shape):
                result[f"{_REFERENCE_PREFIX}{name}"] = self.shapes.setdefault(
                    inner, len(self.shapes)
                )
            elif isinstance(inner, GpuLayout):
                result[f"{_REFERENCE_PREFIX}{name}"] = self.layouts.setdefault(
                    inner, len(self.layouts)
                )
            else:
                result[name] = self.to_plain(inner)
        return result


@cache
def _init_fields(type_: type) -> tuple[str, ...]:
    """The fields that a value is created from; cached hashes are not, as they differ per
    process."""
    return tuple(field.name for field in fields(type_) if field.init)


def _resolve_references(document: JsonObject, tables: Mapping[str, tuple[Any, ...]]) -> None:
    """Replace references by the values that they refer to."""
    remaining: list[Any] = [document]
    while remaining:
        value = remaining.pop()
        if isinstance(value, dict):
            entries = cast(JsonObject, value)
            for name, table in tables.items():
                number = entries.pop(_REFERENCE_PREFIX + name, _ABSENT)
                if number is _ABSENT:
                    continue
                if not isinstance(number, int) or not 0 <= number < len(table):
                    raise _DanglingReference(
                        f"{name} {number!r} does not exist: there are {len(table)}"
                    )
                entries[name] = table[number]
            remaining.extend(entries.values())
        elif isinstance(value, list):
            remaining.extend(cast(list[Any], value))
