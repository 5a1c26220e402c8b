"""The syntax tree of a checked CEL expression, read from the compiler's own output.

The compiler tells what it understood only as a serialised `cel.expr.CheckedExpr`. This reads
that protobuf message without a protobuf library: the few fields that are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

Fields: TypeAlias = list[tuple[int, "int | bytes"]]
"""A protobuf message: field numbers, and values that are numbers or bytes."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; of its value only text is kept."""

    id: int
    type: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Ident:
    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`, or `has(operand.field)` where `test` is set."""

    id: int
    operand: Node
    field: str
    test: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A function, with the object it is called on as the first of `arguments`, if any."""

    id: int
    function: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    id: int
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    id: int
    keys: tuple[Node, ...]
    values: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Fold:
    """What the macros (all, exists, map, …) expand to."""

    id: int
    variable: str
    second_variable: str
    over: Node
    result_name: str
    start: Node
    condition: Node
    step: Node
    result: Node


Node: TypeAlias = Literal | Ident | Select | Call | ListOf | MapOf | Fold


@dataclass(frozen=True, slots=True)
class Tree:
    """A checked expression: its syntax, and what the compiler found out by node id."""

    root: Node
    types: dict[int, str]
    positions: dict[int, int]


def read_tree(serialized: bytes) -> Tree:
    """Decode `Expression.serialize()`."""
    (checked,) = (value for number, value in read_fields(serialized) if number == 2)
    types: dict[int, str] = {}
    positions: dict[int, int] = {}
    root: Node | None = None
    for number, value in read_fields(_message(checked)):
        if number == 3:
            entry = dict(read_fields(_message(value)))
            types[_integer(entry[1])] = _type(_message(entry.get(2, b"")))
        elif number == 4:
            root = _node(_message(value))
        elif number == 5:
            for part, inner in read_fields(_message(value)):
                if part == 4:
                    entry = dict(read_fields(_message(inner)))
                    positions[_integer(entry.get(1, 0))] = _integer(entry.get(2, 0))
    assert root is not None
    return Tree(root, types, positions)


_CONSTANTS = {1: "null", 2: "bool", 3: "int", 4: "uint", 5: "double", 6: "string", 7: "bytes"}
_PRIMITIVES = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN = {1: "dyn", 2: "timestamp", 3: "duration"}


def _node(encoded: bytes) -> Node:
    parts = dict(read_fields(encoded))
    id = _integer(parts.pop(2, 0))
    ((number, body),) = parts.items()
    fields = read_fields(_message(body))
    last = dict(fields)
    if number == 3:
        ((kind, value),) = fields
        return Literal(id, _CONSTANTS[kind], _text(value) if kind == 6 else "")
    if number == 4:
        return Ident(id, _text(last[1]))
    if number == 5:
        return Select(id, _node(_message(last[1])), _text(last[2]), bool(last.get(3)))
    if number == 6:
        inputs = [value for part, value in fields if part in (1, 3)]
        return Call(id, _text(last[2]), tuple(_node(_message(value)) for value in inputs))
    if number == 7:
        items = [_node(_message(value)) for part, value in fields if part == 1]
        for index in _packed(last.get(2, b"")):
            items[index] = _unwrapped(items[index])
        return ListOf(id, tuple(items))
    if number == 8:
        entries = [dict(read_fields(_message(value))) for part, value in fields if part == 2]
        keys = [_node(_message(entry[3])) for entry in entries if 3 in entry]
        values = [
            _unwrapped(_node(_message(entry[4]))) if entry.get(5) else _node(_message(entry[4]))
            for entry in entries
        ]
        return MapOf(id, tuple(keys), tuple(values))
    assert number == 9, number
    return Fold(
        id,
        _text(last[1]),
        _text(last.get(8, b"")),
        _node(_message(last[2])),
        _text(last[3]),
        *(_node(_message(last[part])) for part in (4, 5, 6, 7)),
    )


def _unwrapped(node: Node) -> Node:
    """`[?x]` holds the value of the optional x."""
    return Call(node.id, "value", (node,))


def _packed(encoded: int | bytes) -> Iterator[int]:
    if isinstance(encoded, int):
        yield encoded
        return
    at = 0
    while at < len(encoded):
        value, at = _varint(encoded, at)
        yield value


def _type(encoded: bytes) -> str:
    """A type as CEL's messages write it: `list(map(string, int))`."""
    for number, value in read_fields(encoded):
        if number == 2:
            return "null"
        if number == 3:
            return _PRIMITIVES.get(_integer(value), "dyn")
        if number == 4:
            return f"wrapper({_PRIMITIVES.get(_integer(value), 'dyn')})"
        if number == 5:
            return _WELL_KNOWN.get(_integer(value), "dyn")
        if number == 6:
            inner = dict(read_fields(_message(value)))
            return f"list({_type(_message(inner.get(1, b'')))})"
        if number == 7:
            inner = dict(read_fields(_message(value)))
            key, item = (_type(_message(inner.get(part, b""))) for part in (1, 2))
            return f"map({key}, {item})"
        if number == 11:
            return "type"
        if number == 14:
            inner_fields = read_fields(_message(value))
            name = _text(dict(inner_fields)[1])
            inside = [_type(_message(each)) for part, each in inner_fields if part == 2]
            return f"{name}({', '.join(inside)})" if inside else name
    return "dyn"


def read_fields(encoded: bytes) -> Fields:
    """The fields of a protobuf message, in order."""
    return list(_wire(encoded))


def _wire(encoded: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and raw values of a protobuf message."""
    at = 0
    while at < len(encoded):
        tag, at = _varint(encoded, at)
        wire = tag & 7
        if wire == 0:
            value, at = _varint(encoded, at)
            yield tag >> 3, value
            continue
        if wire == 2:
            size, at = _varint(encoded, at)
        else:
            size = 8 if wire == 1 else 4
        yield tag >> 3, encoded[at : at + size]
        at += size


def _varint(encoded: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = encoded[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _message(value: int | bytes) -> bytes:
    assert isinstance(value, bytes)
    return value


def _integer(value: int | bytes) -> int:
    assert isinstance(value, int)
    return value


def _text(value: int | bytes) -> str:
    return _message(value).decode()
