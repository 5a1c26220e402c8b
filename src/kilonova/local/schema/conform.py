"""Bring an object into the form of a built-in kind, at the speed of the common case.

`conformer` compiles a schema into closures, one per definition, that check types, drop
nulls and bring scalars into their stored form, in place and in one pass. They keep no
paths: at the first field that is unknown or does not fit they raise, and the caller goes
over the object again with `explain`, which can say where and goes on where it may.
"""

from collections.abc import Callable
from typing import Any, cast

from kilonova.local.schema.builtin import definition_schema
from kilonova.local.schema.node import Schema
from kilonova.local.schema.scalars import Misfit, Reader, Unreadable, read_string, reader_of

_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
SCHEMA_PROPS = _EXTENSIONS + "JSONSchemaProps"

SCHEMA_OR = {
    _EXTENSIONS + "JSONSchemaPropsOrArray": list,
    _EXTENSIONS + "JSONSchemaPropsOrBool": bool,
    _EXTENSIONS + "JSONSchemaPropsOrStringArray": list,
}
"""Definitions that are a JSON schema, or else a value of the type given here."""


class Nonconforming(Exception):
    """There is something to explain."""


FAULTS = (Nonconforming, Misfit, Unreadable)
"""What a conformer raises."""


def conformer(schema: Schema) -> Reader:
    """The compiled form of a built-in schema; definitions are compiled once and shared."""
    return _DEFINITIONS.get(schema.definition) or _compile(schema)


_DEFINITIONS: dict[str, Reader] = {}


def _compile(schema: Schema) -> Reader:
    if schema.definition in SCHEMA_OR:
        return _schema_or(SCHEMA_OR[schema.definition])
    if (scalar := reader_of(schema)) is not None:
        return scalar
    if schema.type == "array":
        return _array(conformer(schema.items or Schema()))
    if schema.preserve_unknown or schema.type != "object":
        return _keep
    if schema.additional is not None:
        return _map(conformer(schema.additional))
    return _object(schema)


def _keep(value: Any) -> Any:
    return value


def _object(schema: Schema) -> Reader:
    plan: dict[str, Any] = {}
    reader_for = plan.get

    def read(value: Any) -> Any:
        fields: dict[str, Any] = value
        if type(fields) is not dict:
            raise Nonconforming
        nulls: list[str] | None = None
        for name, inner in fields.items():
            reader = reader_for(name)
            if reader is str:  # stands for `read_string`: most fields are, and a call is dear
                if type(inner) is str:
                    continue
                if inner is not None:
                    raise Nonconforming
            elif reader is None:
                raise Nonconforming
            if inner is None:
                if nulls is None:
                    nulls = []
                nulls.append(name)
                continue
            kept = reader(inner)
            if kept is not inner:
                fields[name] = kept
        if nulls is not None:
            for name in nulls:
                del fields[name]
        return fields

    if schema.definition:
        _DEFINITIONS[schema.definition] = read
    # Filled only now: a definition may contain itself.
    for name, child in schema.properties.items():
        reader = conformer(child)
        plan[name] = str if reader is read_string else reader
    return read


def _array(item: Reader) -> Reader:
    if item is read_string:

        def read_strings(value: Any) -> Any:
            items: list[Any] = value
            if type(items) is not list:
                raise Nonconforming
            for inner in items:
                if type(inner) is not str:
                    raise Nonconforming
            return items

        return read_strings

    def read(value: Any) -> Any:
        items: list[Any] = value
        if type(items) is not list:
            raise Nonconforming
        for index, inner in enumerate(items):
            kept = item(inner)
            if kept is not inner:
                items[index] = kept
        return items

    return read


def _map(item: Reader) -> Reader:
    if item is read_string:

        def read_strings(value: Any) -> Any:
            entries: dict[str, Any] = value
            if type(entries) is not dict:
                raise Nonconforming
            for inner in entries.values():
                if type(inner) is not str:
                    raise Nonconforming
            return entries

        return read_strings

    def read(value: Any) -> Any:
        entries: dict[str, Any] = value
        if type(entries) is not dict:
            raise Nonconforming
        for key, inner in entries.items():
            kept = item(inner)
            if kept is not inner:
                entries[key] = kept
        return entries

    return read


def _schema_or(other: type) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is dict:
            return _schema_props()(value)
        if type(value) is not other:
            raise Nonconforming
        if other is list:
            for inner in cast(list[Any], value):
                if type(inner) is not str:
                    _schema_props()(inner)
        return value

    return read


def _schema_props() -> Callable[[Any], Any]:
    return conformer(definition_schema(SCHEMA_PROPS))
