"""Readers of messages, made from the table when a message is first met.

A reader is a closure over a dictionary from tags to what puts that field into the object. It
gives what Go's JSON would show: a zero that the type's JSON omits is left out, one that it
writes is there even if the bytes are silent, and null is always left out. A singular message
that comes twice is taken from its last place.
"""

import math
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.protobuf.table import Field, table
from kilonova.local.protobuf.values import VALUES, Value
from kilonova.local.protobuf.wire import (
    BYTES,
    FIXED64,
    VARINT,
    Malformed,
    signed,
    skip,
    varint,
)

MAX_DEPTH = 100
"""Messages within messages. Only a CRD's schema can nest without end; real ones stay below 40."""

_Put = Callable[[JsonObject, bytes, int, int, int], int]
"""Puts a field whose value is at a position (bytes: up to another) into an object.

Gives the position behind it; what it gives for bytes is not looked at.
"""

_Number = Callable[[bytes, int], tuple[Any, int]]
"""Reads a scalar, and gives the position behind it."""


@cache
def reader(name: str) -> Value:
    """What reads the message `name` of the table.

    It is given the depth at which the message stands; a union gives what it holds.
    """
    rows = table().messages[name]
    puts: dict[int, _Put] = {}
    for row in rows:
        puts.update(_puts(row))
    names = {row.number: row.name for row in rows}
    kept = [row for row in _flattened(rows) if row.shape == "keep"]
    zeros = {row.name: _ZEROS[row.type] for row in kept if row.type in _ZEROS}
    structs = [(row.name, row.type) for row in kept if _is_message(row.type)]
    content = _UNIONS.get(name)

    def read(body: bytes, pos: int, end: int, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise Malformed(f"messages nested deeper than {MAX_DEPTH}")
        obj: JsonObject = zeros.copy()
        while pos < end:
            tag = body[pos]
            if tag < 0x80:
                pos += 1
            else:
                tag, pos = varint(body, pos)
            put = puts.get(tag)
            if put is None:
                if tag >> 3 in names:
                    field = names[tag >> 3]
                    raise Malformed(f"proto: wrong wireType = {tag & 7} for field {field}")
                pos = skip(body, pos, end, tag)
            elif tag & 7 == BYTES:
                size = body[pos]
                if size < 0x80:
                    pos += 1
                else:
                    size, pos = varint(body, pos)
                stop = pos + size
                if stop > end:
                    raise Malformed("unexpected EOF")
                put(obj, body, pos, stop, depth)
                pos = stop
            else:
                pos = put(obj, body, pos, end, depth)
        if pos != end:
            raise Malformed("unexpected EOF")
        for struct_name, message in structs:
            if struct_name not in obj:
                obj[struct_name] = reader(message)(b"", 0, 0, depth + 1)
        return content(obj) if content else obj

    return read


def _flattened(rows: list[Field]) -> list[Field]:
    flat: list[Field] = []
    for row in rows:
        flat += _flattened(table().messages[row.type]) if row.shape == "inline" else [row]
    return flat


def _is_message(name: str) -> bool:
    return "." in name


def _puts(row: Field) -> dict[int, _Put]:
    """What to do at the tags of a field."""
    if row.type in _NUMBERS:
        wire, read = _NUMBERS[row.type]
        if row.shape != "list":
            return {row.number << 3 | wire: _put_number(row.name, read, row.shape == "omit")}
        return {
            row.number << 3 | wire: _append_number(row.name, read),
            row.number << 3 | BYTES: _extend_numbers(row.name, read),
        }
    value = _message_value(row.type) if _is_message(row.type) else VALUES[row.type]
    tag = row.number << 3 | BYTES
    if row.shape == "list":
        return {tag: _append_value(row.name, value)}
    if row.shape == "map":
        return {tag: _put_entry(row.name, value)}
    if row.shape == "inline":
        return {tag: _put_inline(value)}
    return {tag: _put_value(row.name, value, row.shape == "omit")}


def _message_value(name: str) -> Value:
    """Reads a message one level down; its reader is made when the first one comes."""
    read: Value | None = None

    def value(body: bytes, start: int, stop: int, depth: int) -> Any:
        nonlocal read
        if read is None:
            read = reader(name)
        return read(body, start, stop, depth + 1)

    return value


def _put_value(name: str, value: Value, omit_zero: bool) -> _Put:
    def put(obj: JsonObject, body: bytes, start: int, stop: int, depth: int) -> int:
        found = value(body, start, stop, depth)
        if found or not (omit_zero or found is None):
            obj[name] = found
        return stop

    return put


def _append_value(name: str, value: Value) -> _Put:
    def put(obj: JsonObject, body: bytes, start: int, stop: int, depth: int) -> int:
        found = value(body, start, stop, depth)
        if name in obj:
            obj[name].append(found)
        else:
            obj[name] = [found]
        return stop

    return put


def _put_inline(value: Value) -> _Put:
    def put(obj: JsonObject, body: bytes, start: int, stop: int, depth: int) -> int:
        obj.update(value(body, start, stop, depth))
        return stop

    return put


def _put_entry(name: str, value: Value) -> _Put:
    key_tag, value_tag = 1 << 3 | BYTES, 2 << 3 | BYTES

    def put(obj: JsonObject, body: bytes, pos: int, stop: int, depth: int) -> int:
        key, begin, end = "", 0, 0
        while pos < stop:
            tag, pos = varint(body, pos)
            if tag in (key_tag, value_tag):
                size, start = varint(body, pos)
                pos = start + size
                if pos > stop:
                    raise Malformed("unexpected EOF")
                if tag == key_tag:
                    key = body[start:pos].decode("utf-8", "replace")
                else:
                    begin, end = start, pos
            else:
                pos = skip(body, pos, stop, tag)
        if pos != stop:
            raise Malformed("unexpected EOF")
        found = value(body, begin, end, depth)
        if found is not None:
            obj.setdefault(name, {})[key] = found
        return stop

    return put


def _put_number(name: str, read: _Number, omit_zero: bool) -> _Put:
    def put(obj: JsonObject, body: bytes, pos: int, _end: int, _depth: int) -> int:
        found, pos = read(body, pos)
        if found or not omit_zero:
            obj[name] = found
        return pos

    return put


def _append_number(name: str, read: _Number) -> _Put:
    def put(obj: JsonObject, body: bytes, pos: int, _end: int, _depth: int) -> int:
        found, pos = read(body, pos)
        obj.setdefault(name, []).append(found)
        return pos

    return put


def _extend_numbers(name: str, read: _Number) -> _Put:
    """The packed form of a list: all its numbers in one field."""

    def put(obj: JsonObject, body: bytes, pos: int, stop: int, _depth: int) -> int:
        while pos < stop:
            found, pos = read(body, pos)
            obj.setdefault(name, []).append(found)
        if pos != stop:
            raise Malformed("unexpected EOF")
        return stop

    return put


def _bool(body: bytes, pos: int) -> tuple[bool, int]:
    value, pos = varint(body, pos)
    return value != 0, pos


def _int32(body: bytes, pos: int) -> tuple[int, int]:
    value, pos = varint(body, pos)
    return signed(value, 32), pos


def _int64(body: bytes, pos: int) -> tuple[int, int]:
    value, pos = varint(body, pos)
    return signed(value, 64), pos


def _double(body: bytes, pos: int) -> tuple[float | int, int]:
    if pos + 8 > len(body):
        raise Malformed("unexpected EOF")
    value: float = _LITTLE_DOUBLE.unpack_from(body, pos)[0]
    if not math.isfinite(value):
        raise Malformed(f"json: unsupported value: {value}")
    # Go writes a whole number without a fraction, up to where it changes to exponents.
    whole = value.is_integer() and abs(value) < 1e21
    return (int(value) if whole else value), pos + 8


_LITTLE_DOUBLE = struct.Struct("<d")

_NUMBERS: dict[str, tuple[int, _Number]] = {
    "bool": (VARINT, _bool),
    "int32": (VARINT, _int32),
    "int64": (VARINT, _int64),
    "double": (FIXED64, _double),
}

_ZEROS: dict[str, Any] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "double": 0,
    "quantity": "0",
    "int-or-string": 0,
}
"""Zeros that JSON shows where the type does not say to omit them. Others are null, or objects."""


def _schema_or_bool(union: JsonObject) -> JsonObject | bool:
    return union.get("schema", union["allows"])


def _schema_or_list(union: JsonObject) -> JsonObject | list[JsonObject] | None:
    return union.get("jSONSchemas") or union.get("schema")


def _schema_or_names(union: JsonObject) -> JsonObject | list[str] | None:
    return union.get("property") or union.get("schema")


_UNIONS: dict[str, Callable[[JsonObject], Any]] = {
    "apiextensions.v1.JSONSchemaPropsOrBool": _schema_or_bool,
    "apiextensions.v1.JSONSchemaPropsOrArray": _schema_or_list,
    "apiextensions.v1.JSONSchemaPropsOrStringArray": _schema_or_names,
}
"""Messages that stand for one of two JSON forms."""
