"""Conforming an object to a built-in schema: the fast path.

`compile_conformer` compiles a schema into closures, one per definition, that check types, drop
nulls and normalize scalars, in place and in one pass. They have no paths: at the first unknown or
mistyped field they raise, and the caller repeats the pass with `decode_errors`, which reports paths
and continues after unknown fields.
"""

from collections.abc import Callable
from typing import Any, cast

from kilonova.local.apiserver.schema.builtin import definition_schema
from kilonova.local.apiserver.schema.node import Schema
from kilonova.local.apiserver.schema.scalars import (
    InvalidText,
    TypeMismatch,
    ValueReader,
    read_string,
    scalar_reader,
)

_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
SCHEMA_PROPS = _EXTENSIONS + "JSONSchemaProps"

SCHEMA_OR = {
    _EXTENSIONS + "JSONSchemaPropsOrArray": list,
    _EXTENSIONS + "JSONSchemaPropsOrBool": bool,
    _EXTENSIONS + "JSONSchemaPropsOrStringArray": list,
}
"""Definitions that are a JSON schema or a value of the type given here."""


class NonconformingError(Exception):
    """The object does not conform; `decode_errors` finds out why."""


CONFORM_ERRORS = (NonconformingError, TypeMismatch, InvalidText)
"""The errors that a conformer raises."""


def compile_conformer(schema: Schema) -> ValueReader:
    """The conformer of a built-in schema; definitions are compiled once and shared."""
    return _DEFINITIONS.get(schema.definition) or _compile(schema)


_DEFINITIONS: dict[str, ValueReader] = {}


def _compile(schema: Schema) -> ValueReader:
    if schema.definition in SCHEMA_OR:
        return _schema_or_reader(SCHEMA_OR[schema.definition])
    if (scalar := scalar_reader(schema)) is not None:
        return scalar
    if schema.type == "array":
        return _array_reader(compile_conformer(schema.items or Schema()))
    if schema.preserve_unknown or schema.type != "object":
        return _keep_value
    if schema.additional is not None:
        return _map_reader(compile_conformer(schema.additional))
    return _object_reader(schema)


def _keep_value(value: Any) -> Any:
    return value


def _object_reader(schema: Schema) -> ValueReader:
    readers: dict[str, Any] = {}
    reader_for = readers.get

    def read(value: Any) -> Any:
        fields: dict[str, Any] = value
        if type(fields) is not dict:
            raise NonconformingError
        nulls: list[str] | None = None
        for name, inner in fields.items():
            reader = reader_for(name)
            # `str` replaces `read_string`: most fields are strings, and a call is expensive.
            if reader is str:
                if type(inner) is str:
                    continue
                if inner is not None:
                    raise NonconformingError
            elif reader is None:
                raise NonconformingError
            if inner is None:
                if nulls is None:
                    nulls = []
                nulls.append(name)
                continue
            conformed = reader(inner)
            if conformed is not inner:
                fields[name] = conformed
        if nulls is not None:
            for name in nulls:
                del fields[name]
        return fields

    if schema.definition:
        _DEFINITIONS[schema.definition] = read
    # Filled only now: a definition may contain itself.
    for name, child in schema.properties.items():
        reader = compile_conformer(child)
        readers[name] = str if reader is read_string else reader
    return read


def _array_reader(item: ValueReader) -> ValueReader:
    if item is read_string:

        def read_strings(value: Any) -> Any:
            items: list[Any] = value
            if type(items) is not list:
                raise NonconformingError
            for inner in items:
                if type(inner) is not str:
                    raise NonconformingError
            return items

        return read_strings

    def read(value: Any) -> Any:
        items: list[Any] = value
        if type(items) is not list:
            raise NonconformingError
        for index, inner in enumerate(items):
            conformed = item(inner)
            if conformed is not inner:
                items[index] = conformed
        return items

    return read


def _map_reader(item: ValueReader) -> ValueReader:
    if item is read_string:

        def read_strings(value: Any) -> Any:
            entries: dict[str, Any] = value
            if type(entries) is not dict:
                raise NonconformingError
            for inner in entries.values():
                if type(inner) is not str:
                    raise NonconformingError
            return entries

        return read_strings

    def read(value: Any) -> Any:
        entries: dict[str, Any] = value
        if type(entries) is not dict:
            raise NonconformingError
        for key, inner in entries.items():
            conformed = item(inner)
            if conformed is not inner:
                entries[key] = conformed
        return entries

    return read


def _schema_or_reader(other: type) -> ValueReader:
    def read(value: Any) -> Any:
        if type(value) is dict:
            return _schema_props_reader()(value)
        if type(value) is not other:
            raise NonconformingError
        if other is list:
            for inner in cast(list[Any], value):
                if type(inner) is not str:
                    _schema_props_reader()(inner)
        return value

    return read


def _schema_props_reader() -> Callable[[Any], Any]:
    return compile_conformer(definition_schema(SCHEMA_PROPS))
