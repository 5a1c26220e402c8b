"""Normalization: the form of an object after decoding into Kubernetes' Go structs and encoding.

Empty values with omitempty are dropped, zero values without it are added, quantities and times
become canonical. A generated table specifies which fields are which; normalizers are compiled per
definition when a kind is first used, and are pure and reentrant.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity, QuantityError
from kilonova.api.quantity import quantity_from_json as quantity
from kilonova.api.times import format_micro_time, format_rfc3339, parse_time
from kilonova.local.apiserver.schema.node import Schema
from kilonova.local.data import table

Normalizer = Callable[[Any], Any]
"""Normalizes a value; objects and lists are modified in place."""

_OMITTED, _ZERO, _NULL, _POINTER, _STRUCT, _INT_OR_STRING, _QUANTITY = "eznpsiq"
_MILLI = 10**6  # in nanos
_EMPTY: dict[str, Any] = {"string": "", "boolean": False, "integer": 0, "number": 0}


class NormalizerCompiler:
    """Compiles the normalizers of related schemas. Each definition is compiled once and shared."""

    def __init__(self) -> None:
        self._structs: dict[str, _StructNormalizer] = {}

    def compile(self, schema: Schema) -> Normalizer | None:
        """The normalizer of a schema; None if all its values are normalized already."""
        if schema.format == "quantity":
            return _canonical_quantity
        if schema.type == "string":
            return _FORMATS.get(schema.format)
        if schema.preserve_unknown:
            return None
        if schema.items is not None:
            return _normalize_items(self.compile(schema.items))
        if schema.additional is not None:
            if schema.additional.format == "quantity":
                return _normalize_values(_canonical_resource_quantity)
            return _normalize_values(self.compile(schema.additional))
        if schema.properties and schema.definition in _field_markers():
            return self._compile_struct(schema)
        return None

    def _compile_struct(self, schema: Schema) -> _StructNormalizer:
        struct = self._structs.get(schema.definition)
        if struct is None:
            # Registered before its fields are compiled: a definition may contain itself.
            struct = self._structs[schema.definition] = _StructNormalizer()
            struct.compile(schema, self)
        return struct


class _StructNormalizer:
    """The normalizer of one Go struct."""

    __slots__ = ("_fields", "_nullable", "_omitted", "_written")

    def __init__(self) -> None:
        self._fields: dict[str, Normalizer] = {}
        self._omitted: frozenset[str] = frozenset()
        self._nullable: frozenset[str] = frozenset()
        self._written: list[tuple[str, Callable[[], Any]]] = []

    def compile(self, schema: Schema, compiler: NormalizerCompiler) -> None:
        markers = _field_markers()[schema.definition]
        for name, inner in schema.properties.items():
            normalizer = compiler.compile(inner)
            if normalizer is not None:
                self._fields[name] = normalizer
            marker = markers.get(name)
            if marker is not None and marker != _OMITTED:
                self._written.append((name, _zero_value_factory(marker, inner, normalizer)))
        self._omitted = frozenset(name for name in markers if markers[name] == _OMITTED)
        # An empty object in a raw field is not omitted.
        raw = {name for name, inner in schema.properties.items() if inner.preserve_unknown}
        self._nullable = frozenset(name for name in markers if markers[name] == _NULL) - raw

    def __call__(self, value: Any) -> Any:
        if value.__class__ is not dict:
            return value
        former_of = self._fields.get
        empty: list[str] | None = None
        for name, inner in value.items():
            normalizer = former_of(name)
            if normalizer is not None and inner is not None:
                value[name] = inner = normalizer(inner)
            if not inner:
                if empty is None:
                    empty = []
                empty.append(name)
        if empty is not None:
            self._drop_empty(value, empty)
        for name, make in self._written:
            if name not in value:
                value[name] = make()
        return value

    def _drop_empty(self, value: JsonObject, empty: list[str]) -> None:
        """Drop nulls and what omitempty drops; other empty lists and maps become null."""
        for name in empty:
            if value[name] is None or name in self._omitted:
                del value[name]
            elif name in self._nullable:
                value[name] = None


def _zero_value_factory(
    marker: str, schema: Schema, normalizer: Normalizer | None
) -> Callable[[], Any]:
    if marker == _STRUCT:
        return (lambda: normalizer({})) if normalizer else dict[str, Any]
    zero: Any = {
        _NULL: None,
        _POINTER: None,
        _INT_OR_STRING: 0,
        _QUANTITY: "0",
        _ZERO: _EMPTY.get(schema.type, ""),
    }[marker]
    return lambda: zero


def _normalize_items(normalizer: Normalizer | None) -> Normalizer | None:
    if normalizer is None:
        return None

    def normalize_each(values: Any) -> Any:
        if values.__class__ is list:
            for index, value in enumerate(values):
                values[index] = normalizer(value)
        return values

    return normalize_each


def _normalize_values(normalizer: Normalizer | None) -> Normalizer | None:
    if normalizer is None:
        return None

    def normalize_each_value(values: Any) -> Any:
        if values.__class__ is dict:
            for key, value in values.items():
                values[key] = normalizer(value)
        return values

    return normalize_each_value


def _canonical_quantity(value: Any) -> Any:
    try:
        return str(quantity(value))
    except (QuantityError, TypeError):
        return value


def _canonical_resource_quantity(value: Any) -> Any:
    """Quantities in ResourceLists have a precision of thousandths, rounded up."""
    try:
        amount = quantity(value)
    except (QuantityError, TypeError):
        return value
    if amount.nano % _MILLI:
        amount = Quantity(-(-amount.nano // _MILLI) * _MILLI, amount.format)
    return str(amount)


def _canonical_time(value: Any) -> Any:
    if not isinstance(value, str) or (len(value) == 20 and value.endswith("Z")):
        return value
    try:
        return format_rfc3339(parse_time(value))
    except ValueError:
        return value


def _canonical_micro_time(value: Any) -> Any:
    if not isinstance(value, str) or (len(value) == 27 and value.endswith("Z")):
        return value
    try:
        return format_micro_time(parse_time(value))
    except ValueError:
        return value


_FORMATS: dict[str, Normalizer] = {
    "date-time": _canonical_time,
    "micro-time": _canonical_micro_time,
}


@cache
def _field_markers() -> dict[str, dict[str, str]]:
    return msgspec.json.decode(table("forms.json.gz"), type=dict[str, dict[str, str]])
