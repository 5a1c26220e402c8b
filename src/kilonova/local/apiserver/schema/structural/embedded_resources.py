"""Embedded resources: apiVersion, kind and metadata inside other resources."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, invalid_value, required_value
from kilonova.local.apimachinery.names import (
    dns_1035_label_error,
    path_segment_error,
    validate_object_meta,
)
from kilonova.local.apiserver.schema.builtin import OBJECT_META, definition_schema
from kilonova.local.apiserver.schema.conformance import CONFORM_ERRORS, compile_conformer
from kilonova.local.apiserver.schema.decode_errors import DecodeError, conform_with_errors
from kilonova.local.apiserver.schema.node import Schema

_Visit = Callable[[JsonObject, str], None]


def conform_embedded_metadata(schema: Schema, obj: JsonObject) -> list[str]:
    """Normalize the metadata of embedded resources; returns the paths of unknown fields.

    Raises `DecodeError` if it cannot be decoded.
    """
    unknown: list[str] = []

    def visit(resource: JsonObject, path: str) -> None:
        for name in ("apiVersion", "kind"):
            if name in resource and type(resource[name]) is not str:
                problem = invalid_value(_join_path(path, name), resource[name], "must be a string")
                raise DecodeError(str(problem))
        if resource.get("metadata") is not None:
            unknown.extend(_conform_metadata(resource["metadata"], _join_path(path, "metadata")))

    _visit_embedded(schema, obj, "", visit)
    return unknown


def validate_embedded_resources(schema: Schema, obj: JsonObject) -> list[FieldError]:
    """Validate apiVersion, kind and metadata of embedded resources."""
    problems: list[FieldError] = []

    def visit(resource: JsonObject, path: str) -> None:
        problems.extend(_validate_embedded(resource, path))

    _visit_embedded(schema, obj, "", visit)
    return problems


def _visit_embedded(schema: Schema, value: Any, path: str, visit: _Visit) -> None:
    if type(value) is dict:
        fields = cast(JsonObject, value)
        if schema.embedded_resource:
            visit(fields, path)
        for name, inner in fields.items():
            if type(inner) is not dict and type(inner) is not list:
                continue
            if name in schema.properties:
                _visit_embedded(schema.properties[name], inner, _join_path(path, name), visit)
            elif schema.additional is not None:
                _visit_embedded(schema.additional, inner, f"{path}[{name}]", visit)
    elif type(value) is list and schema.items is not None:
        items = cast(list[Any], value)
        for index, inner in enumerate(items):
            _visit_embedded(schema.items, inner, f"{path}[{index}]", visit)


def _join_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _conform_metadata(metadata: Any, path: str) -> list[str]:
    schema = definition_schema(OBJECT_META)
    try:
        compile_conformer(schema)(metadata)
    except CONFORM_ERRORS:
        try:
            return conform_with_errors(schema, metadata, path)
        except DecodeError as error:
            raise DecodeError(str(invalid_value(path, metadata, str(error)))) from None
    return []


def _validate_embedded(resource: JsonObject, path: str) -> list[FieldError]:
    problems = [
        required_value(_join_path(path, name))
        for name in ("apiVersion", "kind")
        if name not in resource
    ]
    for name, check in (("apiVersion", _api_version_error), ("kind", _kind_error)):
        if name in resource and (error := check(resource[name])):
            problems.append(invalid_value(_join_path(path, name), resource[name], error))
    if type(metadata := resource.get("metadata")) is dict:
        named: JsonObject = {"name": "fakename", **metadata}
        problems += [
            replace(problem, path=_join_path(path, problem.path))
            for problem in validate_object_meta(named, "namespace" in named, path_segment_error)
        ]
    return problems


def _api_version_error(value: Any) -> str:
    if not isinstance(value, str):
        return "must be a string"
    if not value:
        return "must not be empty"
    return f"unexpected GroupVersion string: {value}" if value.count("/") > 1 else ""


def _kind_error(value: Any) -> str:
    if not isinstance(value, str):
        return "must be a string"
    if not value:
        return "must not be empty"
    error = dns_1035_label_error(value.lower())
    return f"may have mixed case, but should otherwise match: {error}" if error else ""
