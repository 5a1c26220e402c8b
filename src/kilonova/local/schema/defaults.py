"""Defaults that the schema of a custom kind gives, also inside objects that are defaults."""

from collections.abc import Callable
from typing import Any

import msgspec

from kilonova.local.schema.node import UNSET, Schema
from kilonova.local.schema.ondemand import OnDemand

Default = Callable[[Any], None]


def defaulter(schema: Schema) -> Default:
    """Compile the schema into a function that changes a value in place.

    A null where the schema is not nullable counts as absent: it gives way to the default,
    or goes.
    """
    return _defaulter(schema) or _leave


def _leave(value: Any) -> None:
    """A schema without structure has nothing to fill in."""


def _defaulter(schema: Schema) -> Default | None:
    if schema.properties or schema.additional is not None:
        return _object(schema)
    if schema.items is not None:
        return _array(schema.items)
    return None


def _object(schema: Schema) -> Default:
    makers = {
        name: maker
        for name, child in schema.properties.items()
        if (maker := _maker(child)) is not None
    }
    nullable = {name for name, child in schema.properties.items() if child.nullable}
    inner = OnDemand(schema.properties, _defaulter)
    known = schema.properties
    additional = schema.additional
    fill_null = _null_filler(additional) if additional is not None else None
    fill_value = _defaulter(additional) if additional is not None else None

    def default(value: Any) -> None:
        fields: dict[str, Any] = value
        if type(fields) is not dict:
            return
        for name, make in makers.items():
            if name not in fields or (fields[name] is None and name not in nullable):
                fields[name] = make()
        emptied: list[str] = []
        for name, field in fields.items():
            if name in known:
                if field is None:
                    if name not in nullable:
                        emptied.append(name)
                elif (fill := inner[name]) is not None:
                    fill(field)
            elif fill_null is not None:
                if field is None and not fill_null(fields, name):
                    emptied.append(name)
                elif fill_value is not None:
                    fill_value(fields[name])
        for name in emptied:
            del fields[name]

    return default


def _null_filler(schema: Schema) -> Callable[[dict[str, Any], str], bool]:
    """What to do with a null in a map: replace it or let it be, else answer False."""
    make = _maker(schema)

    def fill(fields: dict[str, Any], name: str) -> bool:
        if not schema.nullable:
            if make is None:
                return False
            fields[name] = make()
        return True

    return fill


def _array(schema: Schema) -> Default | None:
    make = None if schema.nullable else _maker(schema)
    inner = _defaulter(schema)
    if make is None and inner is None:
        return None

    def default(value: Any) -> None:
        items: list[Any] = value
        if type(items) is not list:
            return
        for index, item in enumerate(items):
            if item is None and make is not None:
                items[index] = make()
            if inner is not None:
                inner(items[index])

    return default


def _maker(schema: Schema) -> Callable[[], Any] | None:
    """A fresh copy of the default at each call, or None where there is none."""
    value = schema.default
    if value is UNSET or value is None:
        return None
    if not isinstance(value, (dict, list)):
        return lambda: value
    encoded = msgspec.json.encode(value)
    return lambda: msgspec.json.decode(encoded)
