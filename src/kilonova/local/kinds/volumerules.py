"""Rules for the sources of volumes: names that must be there, paths that stay inside."""

from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.errors import (
    Problem,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilonova.local.kinds.walk import objects

_HOST_PATH_TYPES = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
]
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_LEAST_SECONDS, _MOST_SECONDS = 600, 1 << 32


def volume_source_problems(kind: str, source: JsonObject, path: str) -> Iterator[Problem]:
    """One source, such as `secret`, of a volume; kinds that pods here cannot have are not read."""
    match kind:
        case "hostPath":
            yield from _host_path_problems(source, path)
        case "secret":
            yield from _keyed_problems(source, "secretName", path)
        case "configMap":
            yield from _keyed_problems(source, "name", path)
        case "downwardAPI":
            yield from _mode_problems(source, "defaultMode", path)
            for file in objects(source, "items"):
                yield from _downward_problems(file, path)
        case "projected":
            yield from _mode_problems(source, "defaultMode", path)
            yield from _projected_problems(objects(source, "sources"), path)
        case _:
            return


def descending_path_problems(value: str, path: str) -> Iterator[Problem]:
    """A path that goes down from where it starts, and never up."""
    if value.startswith("/"):
        yield invalid_value(path, value, "must be a relative path")
    yield from _backstep_problems(value, path)


def _host_path_problems(source: JsonObject, path: str) -> Iterator[Problem]:
    if not source.get("path"):
        yield required(f"{path}.path")
        return
    yield from _backstep_problems(source["path"], f"{path}.path")
    if (kind := source.get("type", "")) not in _HOST_PATH_TYPES:
        yield not_supported(f"{path}.type", kind, _HOST_PATH_TYPES)


def _keyed_problems(source: JsonObject, name: str, path: str) -> Iterator[Problem]:
    if not source.get(name):
        yield required(f"{path}.{name}")
    yield from _mode_problems(source, "defaultMode", path)
    yield from _item_problems(source, path)


def _item_problems(source: JsonObject, path: str) -> Iterator[Problem]:
    for index, item in enumerate(objects(source, "items")):
        here = f"{path}.items[{index}]"
        for field in ("key", "path"):
            if not item.get(field):
                yield required(f"{here}.{field}")
        yield from _own_path_problems(item.get("path", ""), f"{here}.path")
        yield from _mode_problems(item, "mode", here)


def _downward_problems(file: JsonObject, path: str) -> Iterator[Problem]:
    if not file.get("path"):
        yield required(f"{path}.path")
    yield from _own_path_problems(file.get("path", ""), f"{path}.path")
    refs = [name for name in ("fieldRef", "resourceFieldRef") if name in file]
    if len(refs) > 1:
        detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
        yield invalid_value(path, "resource", detail)
    if not refs:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from _mode_problems(file, "mode", path)


def _projected_problems(sources: list[JsonObject], path: str) -> Iterator[Problem]:
    taken: set[str] = set()
    for index, source in enumerate(sources):
        here = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if kind in source:
                inner: JsonObject = source[kind]
                if not inner.get("name"):
                    yield required(f"{here}.{kind}.name")
                yield from _item_problems(inner, f"{here}.{kind}")
                yield from _taken_problems(inner, inner.get("name", ""), path, taken)
        if "downwardAPI" in source:
            for file in objects(source, "downwardAPI", "items"):
                yield from _downward_problems(file, f"{here}.downwardAPI")
                yield from _taken_problems({"items": [file]}, file.get("path", ""), path, taken)
        if "serviceAccountToken" in source:
            yield from _token_problems(source["serviceAccountToken"], path, here)
        if len(source) > 1:
            yield forbidden_field(here, "may not specify more than 1 volume type per source")


def _taken_problems(
    source: JsonObject, shown: str, path: str, taken: set[str]
) -> Iterator[Problem]:
    for item in objects(source, "items"):
        wanted = item.get("path", "")
        if wanted and wanted in taken:
            yield invalid_value(path, shown, "conflicting duplicate paths")
        taken.add(wanted)


def _token_problems(token: JsonObject, path: str, source: str) -> Iterator[Problem]:
    seconds: Any = token.get("expirationSeconds")
    where = f"{source}.serviceAccountToken.expirationSeconds"
    if seconds is not None and seconds < _LEAST_SECONDS:
        yield invalid_value(where, seconds, "may not specify a duration less than 10 minutes")
    if seconds is not None and seconds > _MOST_SECONDS:
        yield invalid_value(where, seconds, "may not specify a duration larger than 2^32 seconds")
    if not token.get("path"):
        yield required(f"{path}.path")
    else:
        yield from _own_path_problems(token["path"], f"{path}.path")


def _own_path_problems(value: str, path: str) -> Iterator[Problem]:
    """Names that begin with two dots are the kubelet's."""
    yield from descending_path_problems(value, path)
    if value.startswith("..") and not value.startswith("../"):
        yield invalid_value(path, value, "must not start with '..'")


def _backstep_problems(value: str, path: str) -> Iterator[Problem]:
    if ".." in value.split("/"):
        yield invalid_value(path, value, "must not contain '..'")


def _mode_problems(holder: JsonObject, field: str, path: str) -> Iterator[Problem]:
    mode: Any = holder.get(field)
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid_value(f"{path}.{field}", mode, _MODE)
