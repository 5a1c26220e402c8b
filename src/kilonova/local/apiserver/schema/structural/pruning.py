"""Pruning of fields that the schema of a custom kind does not declare.

Integral numbers lose their decimal point on the way, as in Go: a client that decodes an integer
rejects `1.0`.
"""

from collections.abc import Callable
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.schema.lazy_fields import LazyCompiledFields
from kilonova.local.apiserver.schema.node import Schema

Pruner = Callable[[Any, str, list[str]], None]
"""Takes a value, its path, and the list that paths of dropped fields are added to."""

_MAX_EXACT_INTEGER = 1 << 53

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


def pruner(schema: Schema, *, is_resource: bool = False) -> Pruner:
    """Compile the schema; `is_resource` keeps the fields that every object has."""
    return _compile_pruner(schema, preserve=False, is_resource=is_resource)


def _compile_pruner(schema: Schema, *, preserve: bool, is_resource: bool = False) -> Pruner:
    keep = preserve or schema.preserve_unknown
    always_kept = META_FIELDS if is_resource or schema.embedded_resource else frozenset[str]()
    fields = LazyCompiledFields(
        schema.properties, lambda child: _compile_pruner(child, preserve=False)
    )
    additional = _compile_pruner(schema.additional, preserve=False) if schema.additional else None
    prune_item = (
        _compile_pruner(schema.items, preserve=keep)
        if schema.items
        else _prune_nothing
        if keep
        else _prune_all
    )

    def prune_object(value: JsonObject, path: str, unknown: list[str]) -> None:
        dropped: list[str] = []
        for name, inner in value.items():
            if name in always_kept:
                continue
            prune = fields[name] or additional
            if prune is not None:
                if type(inner) is dict or type(inner) is list:
                    prune(inner, f"{path}.{name}" if path else name, unknown)
                elif (
                    type(inner) is float and inner.is_integer() and abs(inner) < _MAX_EXACT_INTEGER
                ):
                    value[name] = int(inner)
            elif not keep:
                dropped.append(name)
        for name in dropped:
            unknown.append(f"{path}.{name}" if path else name)
            del value[name]

    def prune(value: Any, path: str, unknown: list[str]) -> None:
        if type(value) is dict:
            prune_object(cast(JsonObject, value), path, unknown)
        elif type(value) is list:
            items = cast(list[Any], value)
            for index, inner in enumerate(items):
                if type(inner) is dict or type(inner) is list:
                    prune_item(inner, f"{path}[{index}]", unknown)
                elif (
                    type(inner) is float and inner.is_integer() and abs(inner) < _MAX_EXACT_INTEGER
                ):
                    items[index] = int(inner)

    return prune


def _prune_all(value: Any, path: str, unknown: list[str]) -> None:
    """The value has no schema: all fields of its objects are dropped."""
    if type(value) is dict:
        fields = cast(JsonObject, value)
        unknown.extend(f"{path}.{name}" for name in fields)
        fields.clear()
    elif type(value) is list:
        for index, inner in enumerate(cast(list[Any], value)):
            _prune_all(inner, f"{path}[{index}]", unknown)


def _prune_nothing(value: Any, path: str, unknown: list[str]) -> None:
    """The value has no schema, and is kept unchanged."""
