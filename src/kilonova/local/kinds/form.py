"""The form an object has after Kubernetes has read it into Go structs and written it again.

Empty values that Go omits are dropped, values that it always writes are filled in, amounts and
times get their canonical text. Which field is which comes from a generated table; the walk is
compiled per definition when a kind is first used. Pure and reentrant once compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity, QuantityError
from kilonova.api.quantity import from_json as quantity
from kilonova.api.times import micro_time, parse_time, rfc3339
from kilonova.local.data import table
from kilonova.local.schema.node import Schema

Former = Callable[[Any], Any]
"""Gives the value its form; objects and lists are changed in place."""

_OMITTED, _ZERO, _NULL, _POINTER, _STRUCT, _INT_OR_STRING, _AMOUNT = "eznpsiq"
_MILLI = 10**6  # in nanos
_EMPTY: dict[str, Any] = {"string": "", "boolean": False, "integer": 0, "number": 0}


class Forms:
    """The formers of a family of schemas. Definitions are compiled once, then shared."""

    def __init__(self) -> None:
        self._structs: dict[str, _Struct] = {}

    def former(self, schema: Schema) -> Former | None:
        """What gives values of that schema their form; None where any value has it already."""
        if schema.format == "quantity":
            return _canonical_amount
        if schema.type == "string":
            return _FORMATS.get(schema.format)
        if schema.preserve_unknown:
            return None
        if schema.items is not None:
            return _each(self.former(schema.items))
        if schema.additional is not None:
            if schema.additional.format == "quantity":
                return _each_value(_canonical_resource)
            return _each_value(self.former(schema.additional))
        if schema.properties and schema.definition in _letters():
            return self._struct(schema)
        return None

    def _struct(self, schema: Schema) -> _Struct:
        struct = self._structs.get(schema.definition)
        if struct is None:
            # Registered before its fields are compiled: a definition may contain itself.
            struct = self._structs[schema.definition] = _Struct()
            struct.compile(schema, self)
        return struct


class _Struct:
    """The former of one Go struct."""

    __slots__ = ("_fields", "_nullable", "_omitted", "_written")

    def __init__(self) -> None:
        self._fields: dict[str, Former] = {}
        self._omitted: frozenset[str] = frozenset()
        self._nullable: frozenset[str] = frozenset()
        self._written: list[tuple[str, Callable[[], Any]]] = []

    def compile(self, schema: Schema, forms: Forms) -> None:
        letters = _letters()[schema.definition]
        for name, inner in schema.properties.items():
            former = forms.former(inner)
            if former is not None:
                self._fields[name] = former
            letter = letters.get(name)
            if letter is not None and letter != _OMITTED:
                self._written.append((name, _maker(letter, inner, former)))
        self._omitted = frozenset(name for name in letters if letters[name] == _OMITTED)
        # An empty object that Go keeps as it came is not the absence of one.
        raw = {name for name, inner in schema.properties.items() if inner.preserve_unknown}
        self._nullable = frozenset(name for name in letters if letters[name] == _NULL) - raw

    def __call__(self, value: Any) -> Any:
        if value.__class__ is not dict:
            return value
        former_of = self._fields.get
        empty: list[str] | None = None
        for name, inner in value.items():
            former = former_of(name)
            if former is not None and inner is not None:
                value[name] = inner = former(inner)
            if not inner:
                if empty is None:
                    empty = []
                empty.append(name)
        if empty is not None:
            self._settle(value, empty)
        for name, make in self._written:
            if name not in value:
                value[name] = make()
        return value

    def _settle(self, value: JsonObject, empty: list[str]) -> None:
        """Drop nulls and what Go omits; null is what is left of empty lists and maps."""
        for name in empty:
            if value[name] is None or name in self._omitted:
                del value[name]
            elif name in self._nullable:
                value[name] = None


def _maker(letter: str, schema: Schema, former: Former | None) -> Callable[[], Any]:
    if letter == _STRUCT:
        return (lambda: former({})) if former else dict[str, Any]
    zero: Any = {
        _NULL: None,
        _POINTER: None,
        _INT_OR_STRING: 0,
        _AMOUNT: "0",
        _ZERO: _EMPTY.get(schema.type, ""),
    }[letter]
    return lambda: zero


def _each(former: Former | None) -> Former | None:
    if former is None:
        return None

    def form_each(values: Any) -> Any:
        if values.__class__ is list:
            for index, value in enumerate(values):
                values[index] = former(value)
        return values

    return form_each


def _each_value(former: Former | None) -> Former | None:
    if former is None:
        return None

    def form_each_value(values: Any) -> Any:
        if values.__class__ is dict:
            for key, value in values.items():
                values[key] = former(value)
        return values

    return form_each_value


def _canonical_amount(value: Any) -> Any:
    try:
        return str(quantity(value))
    except (QuantityError, TypeError):
        return value


def _canonical_resource(value: Any) -> Any:
    """Amounts in lists of resources count in thousandths, rounded up."""
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
        return rfc3339(parse_time(value))
    except ValueError:
        return value


def _canonical_micro_time(value: Any) -> Any:
    if not isinstance(value, str) or (len(value) == 27 and value.endswith("Z")):
        return value
    try:
        return micro_time(parse_time(value))
    except ValueError:
        return value


_FORMATS: dict[str, Former] = {
    "date-time": _canonical_time,
    "micro-time": _canonical_micro_time,
}


@cache
def _letters() -> dict[str, dict[str, str]]:
    return msgspec.json.decode(table("forms.json.gz"), type=dict[str, dict[str, str]])
