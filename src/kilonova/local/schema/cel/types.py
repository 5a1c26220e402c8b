"""What a schema is to CEL: its type, the names of its fields, and values made ready for it."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.schema.node import Schema

Convert = Callable[[Any], Any]

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


class Fields:
    """The fields of an object that rules can see, by escaped name; typed when asked for."""

    __slots__ = ("_schemas", "_types")

    def __init__(self, schema: Schema, root: bool) -> None:
        self._schemas = {escape(name): child for name, child in _visible(schema, root).items()}
        self._types: dict[str, CelType | None] = {}

    def get(self, name: str) -> CelType | None:
        if name not in self._types:
            child = self._schemas.get(name)
            self._types[name] = None if child is None else _type_inside(child)
        return self._types[name]


@dataclass(frozen=True, slots=True)
class CelType:
    """A type as messages name it; `item` is what a list, a map or an optional holds."""

    name: str
    item: CelType | None = None
    fields: Fields | None = field(default=None, compare=False)

    @property
    def is_optional(self) -> bool:
        """Whether an optional is what it is, or may be somewhere inside."""
        return "optional_type" in self.name


DYN = CelType("dyn")
BOOL = CelType("bool")
STRING = CelType("string")
INT = CelType("int")


def list_of(item: CelType) -> CelType:
    return CelType(f"list({item.name})", item)


def map_of(item: CelType) -> CelType:
    return CelType(f"map(string, {item.name})", item)


def optional_of(item: CelType) -> CelType:
    return CelType(f"optional_type({item.name})", item)


def type_named(name: str) -> CelType:
    """The type that the compiler calls by this name."""
    if name.startswith("list("):
        return CelType(name, type_named(name[5:-1]))
    if name.startswith("optional_type("):
        return CelType(name, type_named(name[14:-1]))
    if name.startswith("map("):
        _, _, item = name[4:-1].partition(", ")
        return CelType(name, type_named(item))
    return CelType(name)


def escape(name: str) -> str | None:
    """A property's name as rules write it, or None where they cannot."""
    if not name or name[0].isdigit() or not _IDENTIFIER.fullmatch(name):
        return None
    if name in _RESERVED:
        return f"__{name}__"
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


def type_of(schema: Schema, root: bool = False) -> CelType | None:
    """The type of what a schema describes; None where rules cannot see it.

    `root` adds what every resource has: apiVersion, kind, metadata.name.
    """
    if schema.int_or_string:
        return DYN
    if schema.type == "object":
        if schema.additional is not None and not root:
            item = _type_inside(schema.additional)
            return None if item is None else map_of(item)
        return CelType("object", fields=Fields(schema, root))
    if schema.type == "array":
        item = None if schema.items is None else _type_inside(schema.items)
        return None if item is None else list_of(item)
    if schema.type == "string":
        return CelType(_STRINGS.get(schema.format, "string"))
    scalar = _SCALARS.get(schema.type)
    return None if scalar is None else CelType(scalar)


def _type_inside(schema: Schema) -> CelType | None:
    return type_of(schema, schema.embedded_resource)


_TEXT = Schema(type="string")
_METADATA = Schema(type="object", properties={"name": _TEXT, "generateName": _TEXT})


def _visible(schema: Schema, root: bool) -> dict[str, Schema]:
    if not root:
        return schema.properties
    return {**schema.properties, "apiVersion": _TEXT, "kind": _TEXT, "metadata": _METADATA}


Known = dict[tuple[Schema, bool], Convert | None]


def converter(schema: Schema, root: bool, known: Known) -> Convert | None:
    """A function that makes a JSON value what rules expect; None where it is that already.

    Whole numbers become doubles where the schema says `number`, texts become bytes where it
    says so, names are escaped, and fields that rules cannot see are left out.
    `known` keeps what has been made for a schema already.
    """
    key = (schema, root)
    if key not in known:
        known[key] = _converter(schema, root, known)
    return known[key]


def _converter(schema: Schema, root: bool, known: Known) -> Convert | None:
    if schema.int_or_string:
        return None
    if schema.type == "object":
        if schema.additional is not None and not root:
            return _each_value(_inside(schema.additional, known))
        return _object(schema, root, known)
    if schema.type == "array" and schema.items is not None:
        return _each_item(_inside(schema.items, known))
    if schema.type == "number":
        return _double
    if schema.type == "string":
        return _TEXTS.get(schema.format)
    return None


def _inside(schema: Schema, known: Known) -> Convert | None:
    return converter(schema, schema.embedded_resource, known)


def _object(schema: Schema, root: bool, known: Known) -> Convert | None:
    plain = not root and not schema.preserve_unknown
    parts: dict[str, tuple[str, Convert | None]] = {}
    for name, child in _visible(schema, root).items():
        key = escape(name)
        if key is None or _type_inside(child) is None:
            plain = False
            continue
        convert = _only_names if child is _METADATA else _inside(child, known)
        parts[name] = (key, convert)
        plain = plain and key == name and convert is None
    if plain:
        return None

    def convert_object(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        made: JsonObject = {}
        for name, inner in cast(JsonObject, value).items():
            part = parts.get(name)
            if part is not None:
                made[part[0]] = inner if part[1] is None else part[1](inner)
        return made

    return convert_object


def _only_names(value: Any) -> Any:
    return {name: value[name] for name in ("name", "generateName") if name in value}


def _each_value(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: (
        {key: convert(inner) for key, inner in cast(JsonObject, value).items()}
        if isinstance(value, dict)
        else value
    )


def _each_item(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: (
        [convert(inner) for inner in cast(list[Any], value)] if isinstance(value, list) else value
    )


def _double(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _midnight(value: Any) -> Any:
    return f"{value}T00:00:00Z" if isinstance(value, str) else value


def _bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value)
    except (TypeError, binascii.Error):
        return value


_TEXTS: dict[str, Convert] = {"date": _midnight, "byte": _bytes}
"""Other times stay text, and are read where an expression uses them."""
