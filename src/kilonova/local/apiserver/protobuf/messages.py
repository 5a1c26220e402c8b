"""Message readers, compiled from the table at the first use of a message.

A reader is a closure over a dictionary from tags to field setters. It returns what Go's JSON
encoding would contain: zero values with omitempty are left out, those without are included even if
the message lacks them, and null is always left out. If a singular message field occurs twice, the
last one is used.
"""

import math
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apiserver.protobuf.table import MessageField, load_table
from kilonova.local.apiserver.protobuf.values import VALUE_READERS, ValueReader
from kilonova.local.apiserver.protobuf.wire import (
    BYTES,
    FIXED64,
    VARINT,
    MalformedMessage,
    read_varint,
    skip_field,
    to_signed,
)

MAX_DEPTH = 100
"""The maximum nesting of messages. Only a CRD's schema nests without limit; real ones stay below
40.
"""

_FieldSetter = Callable[[JsonObject, bytes, int, int, int], int]
"""Sets a field whose value is at a position (bytes: up to another) in an object.

Returns the position after the value; ignored for bytes.
"""

_NumberReader = Callable[[bytes, int], tuple[Any, int]]
"""Reads a scalar; returns it and the position after it."""


@cache
def message_reader(name: str) -> ValueReader:
    """The reader of the message `name` of the table.

    It takes the nesting depth of the message; for a union it returns the contained value.
    """
    rows = load_table().messages[name]
    setters: dict[int, _FieldSetter] = {}
    for row in rows:
        setters.update(_field_setters(row))
    names = {row.number: row.name for row in rows}
    zero_rows = [row for row in _flatten_inline(rows) if row.shape == "keep"]
    zeros = {row.name: _ZEROS[row.type] for row in zero_rows if row.type in _ZEROS}
    structs = [(row.name, row.type) for row in zero_rows if _is_message(row.type)]
    content = _UNIONS.get(name)

    def read(body: bytes, pos: int, end: int, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise MalformedMessage(f"messages nested deeper than {MAX_DEPTH}")
        obj: JsonObject = zeros.copy()
        while pos < end:
            tag = body[pos]
            if tag < 0x80:
                pos += 1
            else:
                tag, pos = read_varint(body, pos)
            setter = setters.get(tag)
            if setter is None:
                if tag >> 3 in names:
                    field = names[tag >> 3]
                    raise MalformedMessage(f"proto: wrong wireType = {tag & 7} for field {field}")
                pos = skip_field(body, pos, end, tag)
            elif tag & 7 == BYTES:
                size = body[pos]
                if size < 0x80:
                    pos += 1
                else:
                    size, pos = read_varint(body, pos)
                stop = pos + size
                if stop > end:
                    raise MalformedMessage("unexpected EOF")
                setter(obj, body, pos, stop, depth)
                pos = stop
            else:
                pos = setter(obj, body, pos, end, depth)
        if pos != end:
            raise MalformedMessage("unexpected EOF")
        for struct_name, message in structs:
            if struct_name not in obj:
                obj[struct_name] = message_reader(message)(b"", 0, 0, depth + 1)
        return content(obj) if content else obj

    return read


def _flatten_inline(rows: list[MessageField]) -> list[MessageField]:
    flattened: list[MessageField] = []
    for row in rows:
        flattened += (
            _flatten_inline(load_table().messages[row.type]) if row.shape == "inline" else [row]
        )
    return flattened


def _is_message(name: str) -> bool:
    return "." in name


def _field_setters(row: MessageField) -> dict[int, _FieldSetter]:
    """The setters for the tags of a field."""
    if row.type in _NUMBERS:
        wire_type, read = _NUMBERS[row.type]
        if row.shape != "list":
            return {
                row.number << 3 | wire_type: _number_setter(row.name, read, row.shape == "omit")
            }
        return {
            row.number << 3 | wire_type: _number_appender(row.name, read),
            row.number << 3 | BYTES: _packed_numbers_setter(row.name, read),
        }
    value = _message_value_reader(row.type) if _is_message(row.type) else VALUE_READERS[row.type]
    tag = row.number << 3 | BYTES
    if row.shape == "list":
        return {tag: _value_appender(row.name, value)}
    if row.shape == "map":
        return {tag: _map_entry_setter(row.name, value)}
    if row.shape == "inline":
        return {tag: _inline_setter(value)}
    return {tag: _value_setter(row.name, value, row.shape == "omit")}


def _message_value_reader(name: str) -> ValueReader:
    """Reads a nested message; its reader is compiled at the first use."""
    read: ValueReader | None = None

    def value(body: bytes, start: int, stop: int, depth: int) -> Any:
        nonlocal read
        if read is None:
            read = message_reader(name)
        return read(body, start, stop, depth + 1)

    return value


def _value_setter(name: str, value: ValueReader, omit_zero: bool) -> _FieldSetter:
    def set_field(obj: JsonObject, body: bytes, start: int, stop: int, depth: int) -> int:
        found = value(body, start, stop, depth)
        if found or not (omit_zero or found is None):
            obj[name] = found
        return stop

    return set_field


def _value_appender(name: str, value: ValueReader) -> _FieldSetter:
    def set_field(obj: JsonObject, body: bytes, start: int, stop: int, depth: int) -> int:
        found = value(body, start, stop, depth)
        if name in obj:
            obj[name].append(found)
        else:
            obj[name] = [found]
        return stop

    return set_field


def _inline_setter(value: ValueReader) -> _FieldSetter:
    def set_field(obj: JsonObject, body: bytes, start: int, stop: int, depth: int) -> int:
        obj.update(value(body, start, stop, depth))
        return stop

    return set_field


def _map_entry_setter(name: str, value: ValueReader) -> _FieldSetter:
    key_tag, value_tag = 1 << 3 | BYTES, 2 << 3 | BYTES

    def set_field(obj: JsonObject, body: bytes, pos: int, stop: int, depth: int) -> int:
        key, begin, end = "", 0, 0
        while pos < stop:
            tag, pos = read_varint(body, pos)
            if tag in (key_tag, value_tag):
                size, start = read_varint(body, pos)
                pos = start + size
                if pos > stop:
                    raise MalformedMessage("unexpected EOF")
                if tag == key_tag:
                    key = body[start:pos].decode("utf-8", "replace")
                else:
                    begin, end = start, pos
            else:
                pos = skip_field(body, pos, stop, tag)
        if pos != stop:
            raise MalformedMessage("unexpected EOF")
        found = value(body, begin, end, depth)
        if found is not None:
            obj.setdefault(name, {})[key] = found
        return stop

    return set_field


def _number_setter(name: str, read: _NumberReader, omit_zero: bool) -> _FieldSetter:
    def set_field(obj: JsonObject, body: bytes, pos: int, _end: int, _depth: int) -> int:
        found, pos = read(body, pos)
        if found or not omit_zero:
            obj[name] = found
        return pos

    return set_field


def _number_appender(name: str, read: _NumberReader) -> _FieldSetter:
    def set_field(obj: JsonObject, body: bytes, pos: int, _end: int, _depth: int) -> int:
        found, pos = read(body, pos)
        obj.setdefault(name, []).append(found)
        return pos

    return set_field


def _packed_numbers_setter(name: str, read: _NumberReader) -> _FieldSetter:
    """The packed encoding of a list: all numbers in one field."""

    def set_field(obj: JsonObject, body: bytes, pos: int, stop: int, _depth: int) -> int:
        while pos < stop:
            found, pos = read(body, pos)
            obj.setdefault(name, []).append(found)
        if pos != stop:
            raise MalformedMessage("unexpected EOF")
        return stop

    return set_field


def _read_bool(body: bytes, pos: int) -> tuple[bool, int]:
    value, pos = read_varint(body, pos)
    return value != 0, pos


def _read_int32(body: bytes, pos: int) -> tuple[int, int]:
    value, pos = read_varint(body, pos)
    return to_signed(value, 32), pos


def _read_int64(body: bytes, pos: int) -> tuple[int, int]:
    value, pos = read_varint(body, pos)
    return to_signed(value, 64), pos


def _read_double(body: bytes, pos: int) -> tuple[float | int, int]:
    if pos + 8 > len(body):
        raise MalformedMessage("unexpected EOF")
    value: float = _LITTLE_DOUBLE.unpack_from(body, pos)[0]
    if not math.isfinite(value):
        raise MalformedMessage(f"json: unsupported value: {value}")
    # Go formats an integral number without a fraction, up to the size where it uses exponents.
    is_integral = value.is_integer() and abs(value) < 1e21
    return (int(value) if is_integral else value), pos + 8


_LITTLE_DOUBLE = struct.Struct("<d")

_NUMBERS: dict[str, tuple[int, _NumberReader]] = {
    "bool": (VARINT, _read_bool),
    "int32": (VARINT, _read_int32),
    "int64": (VARINT, _read_int64),
    "double": (FIXED64, _read_double),
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
"""Zero values that JSON includes without omitempty. Others are null or objects."""


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
"""Messages that represent one of two JSON types."""
