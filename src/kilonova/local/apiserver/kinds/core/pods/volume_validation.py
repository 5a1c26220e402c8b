"""Validation of volume sources: required names, and relative paths that stay inside."""

from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    not_supported_value,
    required_value,
)
from kilonova.local.apimachinery.unstructured import nested_objects

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
_MODE_MESSAGE = "must be a number between 0 and 0777 (octal), both inclusive"
_MIN_TOKEN_SECONDS, _MAX_TOKEN_SECONDS = 600, 1 << 32


def validate_volume_source(kind: str, source: JsonObject, path: str) -> Iterator[FieldError]:
    """Validate one source, such as `secret`; types that pods here cannot use are not validated."""
    match kind:
        case "hostPath":
            yield from _validate_host_path(source, path)
        case "secret":
            yield from _validate_keyed_source(source, "secretName", path)
        case "configMap":
            yield from _validate_keyed_source(source, "name", path)
        case "downwardAPI":
            yield from _validate_file_mode(source, "defaultMode", path)
            for file in nested_objects(source, "items"):
                yield from _validate_downward_api_file(file, path)
        case "projected":
            yield from _validate_file_mode(source, "defaultMode", path)
            yield from _validate_projected_sources(nested_objects(source, "sources"), path)
        case _:
            return


def validate_descending_path(value: str, path: str) -> Iterator[FieldError]:
    """A relative path without `..`."""
    if value.startswith("/"):
        yield invalid_value(path, value, "must be a relative path")
    yield from _validate_no_backsteps(value, path)


def _validate_host_path(source: JsonObject, path: str) -> Iterator[FieldError]:
    if not source.get("path"):
        yield required_value(f"{path}.path")
        return
    yield from _validate_no_backsteps(source["path"], f"{path}.path")
    if (kind := source.get("type", "")) not in _HOST_PATH_TYPES:
        yield not_supported_value(f"{path}.type", kind, _HOST_PATH_TYPES)


def _validate_keyed_source(source: JsonObject, name: str, path: str) -> Iterator[FieldError]:
    if not source.get(name):
        yield required_value(f"{path}.{name}")
    yield from _validate_file_mode(source, "defaultMode", path)
    yield from _validate_key_items(source, path)


def _validate_key_items(source: JsonObject, path: str) -> Iterator[FieldError]:
    for index, item in enumerate(nested_objects(source, "items")):
        item_path = f"{path}.items[{index}]"
        for field in ("key", "path"):
            if not item.get(field):
                yield required_value(f"{item_path}.{field}")
        yield from _validate_not_reserved_path(item.get("path", ""), f"{item_path}.path")
        yield from _validate_file_mode(item, "mode", item_path)


def _validate_downward_api_file(file: JsonObject, path: str) -> Iterator[FieldError]:
    if not file.get("path"):
        yield required_value(f"{path}.path")
    yield from _validate_not_reserved_path(file.get("path", ""), f"{path}.path")
    refs = [name for name in ("fieldRef", "resourceFieldRef") if name in file]
    if len(refs) > 1:
        detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
        yield invalid_value(path, "resource", detail)
    if not refs:
        yield required_value(path, "one of fieldRef and resourceFieldRef is required")
    yield from _validate_file_mode(file, "mode", path)


def _validate_projected_sources(sources: list[JsonObject], path: str) -> Iterator[FieldError]:
    paths: set[str] = set()
    for index, source in enumerate(sources):
        item_path = f"{path}.sources[{index}]"
        for kind in ("secret", "configMap"):
            if kind in source:
                inner: JsonObject = source[kind]
                if not inner.get("name"):
                    yield required_value(f"{item_path}.{kind}.name")
                yield from _validate_key_items(inner, f"{item_path}.{kind}")
                yield from _validate_unique_paths(inner, inner.get("name", ""), path, paths)
        if "downwardAPI" in source:
            for file in nested_objects(source, "downwardAPI", "items"):
                yield from _validate_downward_api_file(file, f"{item_path}.downwardAPI")
                yield from _validate_unique_paths(
                    {"items": [file]}, file.get("path", ""), path, paths
                )
        if "serviceAccountToken" in source:
            yield from _validate_token_projection(source["serviceAccountToken"], path, item_path)
        if len(source) > 1:
            yield forbidden_value(item_path, "may not specify more than 1 volume type per source")


def _validate_unique_paths(
    source: JsonObject, field_value: str, path: str, used_paths: set[str]
) -> Iterator[FieldError]:
    for item in nested_objects(source, "items"):
        item_path = item.get("path", "")
        if item_path and item_path in used_paths:
            yield invalid_value(path, field_value, "conflicting duplicate paths")
        used_paths.add(item_path)


def _validate_token_projection(token: JsonObject, path: str, source: str) -> Iterator[FieldError]:
    seconds: Any = token.get("expirationSeconds")
    field_path = f"{source}.serviceAccountToken.expirationSeconds"
    if seconds is not None and seconds < _MIN_TOKEN_SECONDS:
        yield invalid_value(field_path, seconds, "may not specify a duration less than 10 minutes")
    if seconds is not None and seconds > _MAX_TOKEN_SECONDS:
        yield invalid_value(
            field_path, seconds, "may not specify a duration larger than 2^32 seconds"
        )
    if not token.get("path"):
        yield required_value(f"{path}.path")
    else:
        yield from _validate_not_reserved_path(token["path"], f"{path}.path")


def _validate_not_reserved_path(value: str, path: str) -> Iterator[FieldError]:
    """Names that begin with two dots are reserved for the kubelet."""
    yield from validate_descending_path(value, path)
    if value.startswith("..") and not value.startswith("../"):
        yield invalid_value(path, value, "must not start with '..'")


def _validate_no_backsteps(value: str, path: str) -> Iterator[FieldError]:
    if ".." in value.split("/"):
        yield invalid_value(path, value, "must not contain '..'")


def _validate_file_mode(source: JsonObject, field: str, path: str) -> Iterator[FieldError]:
    mode: Any = source.get(field)
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid_value(f"{path}.{field}", mode, _MODE_MESSAGE)
