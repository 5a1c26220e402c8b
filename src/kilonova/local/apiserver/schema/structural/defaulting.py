"""Defaults in the schema of a custom kind, also inside defaulted objects."""

from collections.abc import Callable
from typing import Any

import msgspec

from kilonova.local.apiserver.schema.lazy_fields import LazyCompiledFields
from kilonova.local.apiserver.schema.node import UNSET, Schema

Defaulter = Callable[[Any], None]


def defaulter(schema: Schema) -> Defaulter:
    """Compile the schema into a function that modifies a value in place.

    A null where the schema is not nullable is treated as absent: it is replaced by the default, or
    dropped.
    """
    return _compile_defaulter(schema) or _no_defaults


def _no_defaults(value: Any) -> None:
    """A schema without structure has no defaults."""


def _compile_defaulter(schema: Schema) -> Defaulter | None:
    if schema.properties or schema.additional is not None:
        return _object_defaulter(schema)
    if schema.items is not None:
        return _array_defaulter(schema.items)
    return None


def _object_defaulter(schema: Schema) -> Defaulter:
    factories = {
        name: factory
        for name, child in schema.properties.items()
        if (factory := _default_factory(child)) is not None
    }
    nullable = {name for name, child in schema.properties.items() if child.nullable}
    inner = LazyCompiledFields(schema.properties, _compile_defaulter)
    known = schema.properties
    additional = schema.additional
    fill_null = _null_defaulter(additional) if additional is not None else None
    fill_value = _compile_defaulter(additional) if additional is not None else None

    def default(value: Any) -> None:
        fields: dict[str, Any] = value
        if type(fields) is not dict:
            return
        for name, factory in factories.items():
            if name not in fields or (fields[name] is None and name not in nullable):
                fields[name] = factory()
        emptied: list[str] = []
        for name, field in fields.items():
            if name in known:
                if field is None:
                    if name not in nullable:
                        emptied.append(name)
                elif (set_defaults := inner[name]) is not None:
                    set_defaults(field)
            elif fill_null is not None:
                if field is None and not fill_null(fields, name):
                    emptied.append(name)
                elif fill_value is not None:
                    fill_value(fields[name])
        for name in emptied:
            del fields[name]

    return default


def _null_defaulter(schema: Schema) -> Callable[[dict[str, Any], str], bool]:
    """Handles a null in a map: replaces or keeps it, otherwise returns False."""
    factory = _default_factory(schema)

    def replace_null(fields: dict[str, Any], name: str) -> bool:
        if not schema.nullable:
            if factory is None:
                return False
            fields[name] = factory()
        return True

    return replace_null


def _array_defaulter(schema: Schema) -> Defaulter | None:
    factory = None if schema.nullable else _default_factory(schema)
    inner = _compile_defaulter(schema)
    if factory is None and inner is None:
        return None

    def default(value: Any) -> None:
        items: list[Any] = value
        if type(items) is not list:
            return
        for index, item in enumerate(items):
            if item is None and factory is not None:
                items[index] = factory()
            if inner is not None:
                inner(items[index])

    return default


def _default_factory(schema: Schema) -> Callable[[], Any] | None:
    """Returns a new copy of the default at each call; None if there is no default."""
    value = schema.default
    if value is UNSET or value is None:
        return None
    if not isinstance(value, (dict, list)):
        return lambda: value
    encoded = msgspec.json.encode(value)
    return lambda: msgspec.json.decode(encoded)
