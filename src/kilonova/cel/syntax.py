"""The syntax tree of a checked CEL expression, decoded from the compiler's output.

The compiler exposes its result only as a serialized `cel.expr.CheckedExpr`. This decodes the
required fields of that protobuf message without a protobuf library.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

Fields: TypeAlias = list[tuple[int, "int | bytes"]]
"""A protobuf message: field numbers, and values that are numbers or bytes."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant; only string values are decoded."""

    id: int
    type: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Identifier:
    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`, or `has(operand.field)` if `test` is set."""

    id: int
    operand: Node
    field: str
    test: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A function call; the receiver, if any, is the first of `arguments`."""

    id: int
    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListLiteral:
    id: int
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapLiteral:
    id: int
    keys: tuple[Node, ...]
    values: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Comprehension:
    """The expansion of macros (all, exists, map, …)."""

    id: int
    variable: str
    second_variable: str
    iterable: Node
    result_name: str
    accumulator_start: Node
    condition: Node
    step: Node
    result: Node


Node: TypeAlias = Constant | Identifier | Select | Call | ListLiteral | MapLiteral | Comprehension


@dataclass(frozen=True, slots=True)
class CheckedExpression:
    """A checked expression: its syntax, and the compiler's results by node id."""

    root: Node
    types: dict[int, str]
    positions: dict[int, int]


def decode_expression(serialized: bytes) -> CheckedExpression:
    """Decode `Expression.serialize()`."""
    (checked,) = (value for number, value in read_fields(serialized) if number == 2)
    types: dict[int, str] = {}
    positions: dict[int, int] = {}
    root: Node | None = None
    for number, value in read_fields(_require_bytes(checked)):
        if number == 3:
            entry = dict(read_fields(_require_bytes(value)))
            types[_require_integer(entry[1])] = _decode_type(_require_bytes(entry.get(2, b"")))
        elif number == 4:
            root = _decode_node(_require_bytes(value))
        elif number == 5:
            for part, inner in read_fields(_require_bytes(value)):
                if part == 4:
                    entry = dict(read_fields(_require_bytes(inner)))
                    positions[_require_integer(entry.get(1, 0))] = _require_integer(entry.get(2, 0))
    assert root is not None
    return CheckedExpression(root, types, positions)


_CONSTANTS = {1: "null", 2: "bool", 3: "int", 4: "uint", 5: "double", 6: "string", 7: "bytes"}
_PRIMITIVES = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN = {1: "dyn", 2: "timestamp", 3: "duration"}


def _decode_node(encoded: bytes) -> Node:
    parts = dict(read_fields(encoded))
    id = _require_integer(parts.pop(2, 0))
    ((number, body),) = parts.items()
    fields = read_fields(_require_bytes(body))
    last = dict(fields)
    if number == 3:
        ((kind, value),) = fields
        return Constant(id, _CONSTANTS[kind], _decode_text(value) if kind == 6 else "")
    if number == 4:
        return Identifier(id, _decode_text(last[1]))
    if number == 5:
        return Select(
            id, _decode_node(_require_bytes(last[1])), _decode_text(last[2]), bool(last.get(3))
        )
    if number == 6:
        inputs = [value for part, value in fields if part in (1, 3)]
        return Call(
            id,
            _decode_text(last[2]),
            tuple(_decode_node(_require_bytes(value)) for value in inputs),
        )
    if number == 7:
        items = [_decode_node(_require_bytes(value)) for part, value in fields if part == 1]
        for index in _unpack_varints(last.get(2, b"")):
            items[index] = _unwrap_optional(items[index])
        return ListLiteral(id, tuple(items))
    if number == 8:
        entries = [dict(read_fields(_require_bytes(value))) for part, value in fields if part == 2]
        keys = [_decode_node(_require_bytes(entry[3])) for entry in entries if 3 in entry]
        values = [
            _unwrap_optional(_decode_node(_require_bytes(entry[4])))
            if entry.get(5)
            else _decode_node(_require_bytes(entry[4]))
            for entry in entries
        ]
        return MapLiteral(id, tuple(keys), tuple(values))
    assert number == 9, number
    return Comprehension(
        id,
        _decode_text(last[1]),
        _decode_text(last.get(8, b"")),
        _decode_node(_require_bytes(last[2])),
        _decode_text(last[3]),
        *(_decode_node(_require_bytes(last[part])) for part in (4, 5, 6, 7)),
    )


def _unwrap_optional(node: Node) -> Node:
    """`[?x]` contains the value of the optional x."""
    return Call(node.id, "value", (node,))


def _unpack_varints(encoded: int | bytes) -> Iterator[int]:
    if isinstance(encoded, int):
        yield encoded
        return
    at = 0
    while at < len(encoded):
        value, at = _decode_varint(encoded, at)
        yield value


def _decode_type(encoded: bytes) -> str:
    """A type in CEL's notation: `list(map(string, int))`."""
    for number, value in read_fields(encoded):
        if number == 2:
            return "null"
        if number == 3:
            return _PRIMITIVES.get(_require_integer(value), "dyn")
        if number == 4:
            return f"wrapper({_PRIMITIVES.get(_require_integer(value), 'dyn')})"
        if number == 5:
            return _WELL_KNOWN.get(_require_integer(value), "dyn")
        if number == 6:
            inner = dict(read_fields(_require_bytes(value)))
            return f"list({_decode_type(_require_bytes(inner.get(1, b'')))})"
        if number == 7:
            inner = dict(read_fields(_require_bytes(value)))
            key, item = (_decode_type(_require_bytes(inner.get(part, b""))) for part in (1, 2))
            return f"map({key}, {item})"
        if number == 11:
            return "type"
        if number == 14:
            inner_fields = read_fields(_require_bytes(value))
            name = _decode_text(dict(inner_fields)[1])
            inside = [
                _decode_type(_require_bytes(each)) for part, each in inner_fields if part == 2
            ]
            return f"{name}({', '.join(inside)})" if inside else name
    return "dyn"


def read_fields(encoded: bytes) -> Fields:
    """The fields of a protobuf message, in order."""
    return list(_iterate_wire_fields(encoded))


def _iterate_wire_fields(encoded: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and raw values of a protobuf message."""
    at = 0
    while at < len(encoded):
        tag, at = _decode_varint(encoded, at)
        wire_type = tag & 7
        if wire_type == 0:
            value, at = _decode_varint(encoded, at)
            yield tag >> 3, value
            continue
        if wire_type == 2:
            size, at = _decode_varint(encoded, at)
        else:
            size = 8 if wire_type == 1 else 4
        yield tag >> 3, encoded[at : at + size]
        at += size


def _decode_varint(encoded: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = encoded[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _require_bytes(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def _require_integer(value: int | bytes) -> int:
    assert isinstance(value, int)
    return value


def _decode_text(value: int | bytes) -> str:
    return _require_bytes(value).decode()
