"""The CEL view of a schema: its type, its field names, and the conversion of its values."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.cel.types import DYN, CelType, list_of, map_of
from kilonova.local.apiserver.schema.node import Schema

ValueConverter = Callable[[Any], Any]

_RESERVED = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_IDENTIFIER = re.compile(r"[A-Za-z0-9_./-]+")
_ESCAPED = re.compile(r"__|[-./]")
_SCALARS = {"boolean": "bool", "number": "double", "integer": "int"}
_STRINGS = {"byte": "bytes", "duration": "duration", "date": "timestamp", "date-time": "timestamp"}


class ObjectFields:
    """The fields of an object that rules can access, by escaped name; typed on demand."""

    __slots__ = ("_schemas", "_types")

    def __init__(self, schema: Schema, root: bool) -> None:
        self._schemas = {
            escape(name): child for name, child in _visible_properties(schema, root).items()
        }
        self._types: dict[str, CelType | None] = {}

    def get(self, name: str) -> CelType | None:
        if name not in self._types:
            child = self._schemas.get(name)
            self._types[name] = None if child is None else _content_type(child)
        return self._types[name]


def escape(name: str) -> str | None:
    """A property's name in rules, or None if it is not accessible."""
    if not name or name[0].isdigit() or not _IDENTIFIER.fullmatch(name):
        return None
    if name in _RESERVED:
        return f"__{name}__"
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


def cel_type_of(schema: Schema, root: bool = False) -> CelType | None:
    """The type of a schema; None if rules cannot access it.

    `root` adds the fields of every resource: apiVersion, kind, metadata.name.
    """
    if schema.int_or_string:
        return DYN
    if schema.type == "object":
        if schema.additional is not None and not root:
            item = _content_type(schema.additional)
            return None if item is None else map_of(item)
        return CelType("object", fields=ObjectFields(schema, root))
    if schema.type == "array":
        item = None if schema.items is None else _content_type(schema.items)
        return None if item is None else list_of(item)
    if schema.type == "string":
        return CelType(_STRINGS.get(schema.format, "string"))
    scalar = _SCALARS.get(schema.type)
    return None if scalar is None else CelType(scalar)


def _content_type(schema: Schema) -> CelType | None:
    return cel_type_of(schema, schema.embedded_resource)


_TEXT = Schema(type="string")
_METADATA = Schema(type="object", properties={"name": _TEXT, "generateName": _TEXT})


def _visible_properties(schema: Schema, root: bool) -> dict[str, Schema]:
    if not root:
        return schema.properties
    return {**schema.properties, "apiVersion": _TEXT, "kind": _TEXT, "metadata": _METADATA}


ConverterCache = dict[tuple[Schema, bool], ValueConverter | None]


def converter(schema: Schema, root: bool, cache: ConverterCache) -> ValueConverter | None:
    """A function that converts a JSON value for rules; None if no conversion is needed.

    Integers become doubles where the schema says `number`, strings become bytes where the format
    reports it, names are escaped, and fields that rules cannot access are dropped. `cache` has the
    converters of schemas that are compiled already.
    """
    key = (schema, root)
    if key not in cache:
        cache[key] = _compile_converter(schema, root, cache)
    return cache[key]


def _compile_converter(schema: Schema, root: bool, cache: ConverterCache) -> ValueConverter | None:
    if schema.int_or_string:
        return None
    if schema.type == "object":
        if schema.additional is not None and not root:
            return _value_converter(_content_converter(schema.additional, cache))
        return _object_converter(schema, root, cache)
    if schema.type == "array" and schema.items is not None:
        return _item_converter(_content_converter(schema.items, cache))
    if schema.type == "number":
        return _to_double
    if schema.type == "string":
        return _STRING_CONVERTERS.get(schema.format)
    return None


def _content_converter(schema: Schema, cache: ConverterCache) -> ValueConverter | None:
    return converter(schema, schema.embedded_resource, cache)


def _object_converter(schema: Schema, root: bool, cache: ConverterCache) -> ValueConverter | None:
    plain = not root and not schema.preserve_unknown
    parts: dict[str, tuple[str, ValueConverter | None]] = {}
    for name, child in _visible_properties(schema, root).items():
        key = escape(name)
        if key is None or _content_type(child) is None:
            plain = False
            continue
        convert = _strip_metadata if child is _METADATA else _content_converter(child, cache)
        parts[name] = (key, convert)
        plain = plain and key == name and convert is None
    if plain:
        return None

    def convert_object(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        converted: JsonObject = {}
        for name, inner in cast(JsonObject, value).items():
            part = parts.get(name)
            if part is not None:
                converted[part[0]] = inner if part[1] is None else part[1](inner)
        return converted

    return convert_object


def _strip_metadata(value: Any) -> Any:
    return {name: value[name] for name in ("name", "generateName") if name in value}


def _value_converter(convert: ValueConverter | None) -> ValueConverter | None:
    if convert is None:
        return None
    return lambda value: (
        {key: convert(inner) for key, inner in cast(JsonObject, value).items()}
        if isinstance(value, dict)
        else value
    )


def _item_converter(convert: ValueConverter | None) -> ValueConverter | None:
    if convert is None:
        return None
    return lambda value: (
        [convert(inner) for inner in cast(list[Any], value)] if isinstance(value, list) else value
    )


def _to_double(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _to_midnight(value: Any) -> Any:
    return f"{value}T00:00:00Z" if isinstance(value, str) else value


def _to_bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value)
    except (TypeError, binascii.Error):
        return value


_STRING_CONVERTERS: dict[str, ValueConverter] = {"date": _to_midnight, "byte": _to_bytes}
"""Other times stay strings, and are parsed where an expression uses them."""
