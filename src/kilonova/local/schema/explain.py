"""Bring an object into the form of a built-in kind, and say what does not fit, and where.

The careful counterpart of `conform`: it drops nulls and unknown fields, remembers the paths
of the latter, and refuses a value of the wrong type in the words of Go's JSON decoder.
"""

from typing import Any, cast

import msgspec

from kilonova.local.errors import ApiError, bad_request
from kilonova.local.schema.builtin import definition_schema
from kilonova.local.schema.conform import SCHEMA_OR, SCHEMA_PROPS
from kilonova.local.schema.node import Schema
from kilonova.local.schema.scalars import Misfit, Unreadable, reader_of, zero


class Refusal(Exception):
    """The object cannot be read; the message is what Go's decoder would say."""


def unreadable(kind: str, version: str, detail: str) -> ApiError:
    """400: the body is no object of this kind."""
    return bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {detail}')


def too_deep(kind: str, version: str) -> ApiError:
    """400: the body is nested more deeply than any sensible object."""
    return unreadable(kind, version, "exceeded max depth")


def explain(schema: Schema, value: Any, prefix: str = "") -> list[str]:
    """Conform `value` in place and return the paths of the unknown fields it had.

    `prefix` is put before each path. Raises `Refusal` at a value that does not fit.
    """
    walk = _Walk()
    walk.value(schema, value, prefix, "", "")
    return walk.unknown


class _Walk:
    """`path` has the indexes of lists, `field` is what Go names in its messages: none."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def value(self, schema: Schema, value: Any, path: str, struct: str, field: str) -> Any:
        if schema.definition in SCHEMA_OR:
            return self._schema_or(schema, value, path, struct, field)
        reader = reader_of(schema)
        if reader is not None:
            try:
                return reader(value)
            except Misfit as misfit:
                raise _refusal(misfit.value, misfit.go_type, struct, field) from None
            except Unreadable as error:
                raise Refusal(str(error)) from None
        if schema.type == "array":
            return self._array(schema, value, path, struct, field)
        if schema.preserve_unknown or schema.type != "object":
            return value
        if type(value) is not dict:
            raise _refusal(value, _go_type(schema), struct, field)
        if schema.additional is not None:
            return self._map(schema.additional, cast(dict[str, Any], value), path, struct, field)
        return self._object(schema, cast(dict[str, Any], value), path, field)

    def _object(self, schema: Schema, value: dict[str, Any], path: str, field: str) -> Any:
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
                value[name] = self.value(child, inner, inner_path, struct, inner_field)
        return value

    def _map(
        self, schema: Schema, value: dict[str, Any], path: str, struct: str, field: str
    ) -> Any:
        for key, inner in value.items():
            if inner is None:
                value[key] = zero(schema)
            else:
                inner_path = f"{path}.{key}" if path else key
                value[key] = self.value(schema, inner, inner_path, struct, field)
        return value

    def _array(self, schema: Schema, value: Any, path: str, struct: str, field: str) -> Any:
        if type(value) is not list:
            raise _refusal(value, _go_type(schema), struct, field)
        item = schema.items or Schema()
        items = cast(list[Any], value)
        for index, inner in enumerate(items):
            if inner is None:
                items[index] = zero(item)
            else:
                items[index] = self.value(item, inner, f"{path}[{index}]", struct, field)
        return items

    def _schema_or(self, schema: Schema, value: Any, path: str, struct: str, field: str) -> Any:
        props = definition_schema(SCHEMA_PROPS)
        # Kubernetes reads these with code of their own, which is silent about unknown fields.
        silent = _Walk()
        if type(value) is dict:
            return silent.value(props, value, path, struct, field)
        items: list[Any] = value
        if type(items) is not SCHEMA_OR[schema.definition]:
            raise _refusal(value, _go_type(schema), struct, field)
        if SCHEMA_OR[schema.definition] is bool:
            return value
        for index, inner in enumerate(items):
            if type(inner) is not str:
                silent.value(props, inner, f"{path}[{index}]", struct, field)
        return items


def _refusal(value: Any, go_type: str, struct: str, field: str) -> Refusal:
    where = f"Go struct field {struct}.{field}" if field else "Go value"
    return Refusal(
        f"json: cannot unmarshal {_json_type(value, go_type)} into {where} of type {go_type}"
    )


def _json_type(value: Any, go_type: str) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        # The number itself matters only where another number would have done.
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
