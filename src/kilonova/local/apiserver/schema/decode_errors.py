"""Conforming an object to a built-in schema: the slow path, with errors and paths.

Unlike `conformance`, it drops nulls and unknown fields and collects the paths of the latter, and
reports a value of the wrong type with the message of Go's JSON decoder.
"""

from typing import Any, cast

import msgspec

from kilonova.local.apimachinery.errors import ApiError, bad_request
from kilonova.local.apiserver.schema.builtin import definition_schema
from kilonova.local.apiserver.schema.conformance import SCHEMA_OR, SCHEMA_PROPS
from kilonova.local.apiserver.schema.node import Schema
from kilonova.local.apiserver.schema.scalars import (
    InvalidText,
    TypeMismatch,
    go_zero_value,
    scalar_reader,
)


class DecodeError(Exception):
    """The object cannot be decoded; the message is that of Go's decoder."""


def undecodable_error(kind: str, version: str, detail: str) -> ApiError:
    """400: the body is not an object of this kind."""
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {detail}')


def too_deep_error(kind: str, version: str) -> ApiError:
    """400: the body is nested too deeply."""
    return undecodable_error(kind, version, "exceeded max depth")


def conform_with_errors(schema: Schema, value: Any, prefix: str = "") -> list[str]:
    """Conform `value` in place and return the paths of unknown fields.

    `prefix` is prepended to each path. Raises `DecodeError` at a value of the wrong type.
    """
    walk = _ConformWalk()
    walk.visit(schema, value, prefix, "", "")
    return walk.unknown


class _ConformWalk:
    """`path` contains list indexes, `field` is the field in Go's messages, without indexes."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def visit(self, schema: Schema, value: Any, path: str, struct: str, field: str) -> Any:
        if schema.definition in SCHEMA_OR:
            return self._visit_schema_or(schema, value, path, struct, field)
        reader = scalar_reader(schema)
        if reader is not None:
            try:
                return reader(value)
            except TypeMismatch as misfit:
                raise _type_error(misfit.value, misfit.go_type, struct, field) from None
            except InvalidText as error:
                raise DecodeError(str(error)) from None
        if schema.type == "array":
            return self._visit_array(schema, value, path, struct, field)
        if schema.preserve_unknown or schema.type != "object":
            return value
        if type(value) is not dict:
            raise _type_error(value, _go_type(schema), struct, field)
        if schema.additional is not None:
            return self._visit_map(
                schema.additional, cast(dict[str, Any], value), path, struct, field
            )
        return self._visit_object(schema, cast(dict[str, Any], value), path, field)

    def _visit_object(self, schema: Schema, value: dict[str, Any], path: str, field: str) -> Any:
        struct = schema.definition.rpartition(".")[2]
        for name in list(value):
            inner = value[name]
            inner_path = f"{path}.{name}" if path else name
            child = schema.properties.get(name)
            if child is None:
                self.unknown.append(inner_path)
                del value[name]
            elif inner is None:
                del value[name]
            else:
                inner_field = f"{field}.{name}" if field else name
                value[name] = self.visit(child, inner, inner_path, struct, inner_field)
        return value

    def _visit_map(
        self, schema: Schema, value: dict[str, Any], path: str, struct: str, field: str
    ) -> Any:
        for key, inner in value.items():
            if inner is None:
                value[key] = go_zero_value(schema)
            else:
                inner_path = f"{path}.{key}" if path else key
                value[key] = self.visit(schema, inner, inner_path, struct, field)
        return value

    def _visit_array(self, schema: Schema, value: Any, path: str, struct: str, field: str) -> Any:
        if type(value) is not list:
            raise _type_error(value, _go_type(schema), struct, field)
        item = schema.items or Schema()
        items = cast(list[Any], value)
        for index, inner in enumerate(items):
            if inner is None:
                items[index] = go_zero_value(item)
            else:
                items[index] = self.visit(item, inner, f"{path}[{index}]", struct, field)
        return items

    def _visit_schema_or(
        self, schema: Schema, value: Any, path: str, struct: str, field: str
    ) -> Any:
        props = definition_schema(SCHEMA_PROPS)
        # Kubernetes decodes these with custom code, which does not report unknown fields.
        ignoring = _ConformWalk()
        if type(value) is dict:
            return ignoring.visit(props, value, path, struct, field)
        items: list[Any] = value
        if type(items) is not SCHEMA_OR[schema.definition]:
            raise _type_error(value, _go_type(schema), struct, field)
        if SCHEMA_OR[schema.definition] is bool:
            return value
        for index, inner in enumerate(items):
            if type(inner) is not str:
                ignoring.visit(props, inner, f"{path}[{index}]", struct, field)
        return items


def _type_error(value: Any, go_type: str, struct: str, field: str) -> DecodeError:
    target = f"Go struct field {struct}.{field}" if field else "Go value"
    return DecodeError(
        f"json: cannot unmarshal {_json_type(value, go_type)} into {target} of type {go_type}"
    )


def _json_type(value: Any, go_type: str) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        # The number is part of the message only if another number would be valid.
        return f"number {msgspec.json.encode(value).decode()}" if "int" in go_type[:3] else "number"
    if isinstance(value, str):
        return "string"
    return "null" if value is None else "array" if isinstance(value, list) else "object"


def _go_type(schema: Schema) -> str:
    if schema.type == "array":
        return f"[]{_go_type(schema.items or Schema())}"
    if schema.additional is not None:
        return f"map[string]{_go_type(schema.additional)}"
    if schema.definition:
        return ".".join(schema.definition.split(".")[-2:])
    if schema.type == "integer":
        return schema.format or "int32"
    return {"boolean": "bool", "number": "float64"}.get(schema.type, schema.type)
