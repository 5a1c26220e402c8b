"""Dropping fields that the schema of a custom kind does not know.

On the way, whole numbers lose their decimal point, as they do in Go: a client that reads
an integer refuses `1.0`.
"""

from collections.abc import Callable
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.local.schema.node import Schema
from kilonova.local.schema.ondemand import OnDemand

Prune = Callable[[Any, str, list[str]], None]
"""Given a value, its path, and where the paths of dropped fields go."""

_EXACT = 1 << 53

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})


def pruner(schema: Schema, *, is_resource: bool = False) -> Prune:
    """Compile the schema; `is_resource` spares the fields that every object has."""
    return _pruner(schema, preserve=False, spare=is_resource)


def _pruner(schema: Schema, *, preserve: bool, spare: bool = False) -> Prune:
    keep = preserve or schema.preserve_unknown
    spared = META_FIELDS if spare or schema.embedded_resource else frozenset[str]()
    fields = OnDemand(schema.properties, lambda child: _pruner(child, preserve=False))
    additional = _pruner(schema.additional, preserve=False) if schema.additional else None
    prune_item = _pruner(schema.items, preserve=keep) if schema.items else _keep if keep else _wipe

    def prune_object(value: JsonObject, path: str, unknown: list[str]) -> None:
        dropped: list[str] = []
        for name, inner in value.items():
            if name in spared:
                continue
            prune = fields[name] or additional
            if prune is not None:
                if type(inner) is dict or type(inner) is list:
                    prune(inner, f"{path}.{name}" if path else name, unknown)
                elif type(inner) is float and inner.is_integer() and abs(inner) < _EXACT:
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
                elif type(inner) is float and inner.is_integer() and abs(inner) < _EXACT:
                    items[index] = int(inner)

    return prune


def _wipe(value: Any, path: str, unknown: list[str]) -> None:
    """Nothing is known of the value: objects in it lose all their fields."""
    if type(value) is dict:
        fields = cast(JsonObject, value)
        unknown.extend(f"{path}.{name}" for name in fields)
        fields.clear()
    elif type(value) is list:
        for index, inner in enumerate(cast(list[Any], value)):
            _wipe(inner, f"{path}[{index}]", unknown)


def _keep(value: Any, path: str, unknown: list[str]) -> None:
    """Nothing is known of the value, and it is kept as it is."""
