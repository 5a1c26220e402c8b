"""Decoding of scalars of built-in kinds, to their stored form.

Each reader takes a JSON value and returns the value to store, the same object if nothing changes.
It raises `TypeMismatch` with the expected Go type, or `InvalidText` with a complete message for a
string of the right type but invalid content.
"""

import binascii
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from kilonova.api import quantity
from kilonova.local.apiserver.schema.node import Schema

ValueReader = Callable[[Any], Any]


class TypeMismatch(Exception):
    """The value has another JSON type than the field."""

    def __init__(self, go_type: str, value: Any) -> None:
        super().__init__(go_type)
        self.go_type = go_type
        self.value = value


class InvalidText(Exception):
    """The value is an invalid string; the message is Go's."""


def scalar_reader(schema: Schema) -> ValueReader | None:
    """The reader of a scalar with this schema; None for objects, arrays and free-form values."""
    if schema.int_or_string:
        return read_int_or_string
    if schema.type == "string":
        return _STRINGS.get(schema.format, read_string)
    if schema.type == "integer":
        return read_int64 if schema.format == "int64" else read_int32
    if schema.type == "number":
        return read_number
    if schema.type == "boolean":
        return read_boolean
    return None


def read_string(value: Any) -> Any:
    if type(value) is not str:
        raise TypeMismatch("string", value)
    return value


def read_boolean(value: Any) -> Any:
    if type(value) is not bool:
        raise TypeMismatch("bool", value)
    return value


def read_int32(value: Any) -> Any:
    if type(value) is not int or not -0x80000000 <= value <= 0x7FFFFFFF:
        raise TypeMismatch("int32", value)
    return value


def read_int64(value: Any) -> Any:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise TypeMismatch("int64", value)
    return value


def read_number(value: Any) -> Any:
    if type(value) is not float and type(value) is not int:
        raise TypeMismatch("float64", value)
    return value


def read_int_or_string(value: Any) -> Any:
    return value if type(value) is str else read_int32(value)


def read_quantity(value: Any) -> Any:
    """A string or number, to its canonical form."""
    if type(value) not in (str, int, float):
        value = ""  # rejected with the message that Kubernetes has for any other type
    try:
        return str(quantity.quantity_from_json(value))
    except quantity.QuantityError as error:
        raise InvalidText(str(error)) from None


def read_time(value: Any) -> Any:
    """RFC 3339, to UTC and whole seconds."""
    if type(value) is str and _is_plain_time(value):
        return value
    return _parse_time(value, _TIME_LAYOUT).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_micro_time(value: Any) -> Any:
    """RFC 3339 with exactly six digits, to UTC."""
    if type(value) is str and _is_plain_micro_time(value):
        return value
    return _parse_time(value, _MICRO_TIME_LAYOUT).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def read_bytes(value: Any) -> Any:
    """Base64; line breaks are removed."""
    if type(value) is not str:
        raise TypeMismatch("[]uint8", value)
    text: str = value
    if "\n" in text or "\r" in text:
        text = text.replace("\n", "").replace("\r", "")
    try:
        canonical = binascii.b2a_base64(
            binascii.a2b_base64(text, strict_mode=True), newline=False
        ).decode()
    except (binascii.Error, ValueError):
        canonical = ""
    # Python ignores excess padding.
    if len(canonical) != len(text):
        raise InvalidText(f"illegal base64 data at input byte {_base64_error_offset(text)}")
    return canonical


def go_zero_value(schema: Schema) -> Any:
    """Go's value for null where no field can be omitted: in lists and maps."""
    if schema.format == "quantity":
        return "0"
    if schema.int_or_string:
        return 0
    return _ZEROS[schema.type]() if schema.type in _ZEROS else None


_STRINGS: dict[str, ValueReader] = {
    "quantity": read_quantity,
    "date-time": read_time,
    "micro-time": read_micro_time,
    "byte": read_bytes,
}
_ZEROS: dict[str, Callable[[], Any]] = {
    "string": str,
    "integer": int,
    "number": int,
    "boolean": bool,
    "object": dict,
}

_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_TIME_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_DAY = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])"
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d"
# The last days of a month depend on the calendar: the slower parser below handles them.
_is_plain_time = re.compile(f"{_DAY}T{_CLOCK}Z", re.ASCII).fullmatch
_is_plain_micro_time = re.compile(rf"{_DAY}T{_CLOCK}\.\d{{6}}Z", re.ASCII).fullmatch

_PARTS = [
    (re.compile(part if not part.isdigit() else rf"\d{{{len(part)}}}", re.ASCII), part)
    for part in ("2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05")
]
_FRACTION = re.compile(r"\.(\d+)", re.ASCII)
_MICROSECONDS = re.compile(r"\.(\d{6})", re.ASCII)
_ZONE = re.compile(r"Z|([+-])(\d\d):(\d\d)", re.ASCII)


def _parse_time(value: Any, layout: str) -> datetime:
    """Parses like Go's `time.Parse`, whose error names the failing element of the layout."""
    if type(value) is not str:
        raise TypeMismatch("string", value)
    text: str = value
    position = 0
    for pattern, part in _PARTS:
        match = pattern.match(text, position)
        if match is None:
            raise _time_parse_error(text, layout, position, part)
        position = match.end()
    exact = layout == _MICRO_TIME_LAYOUT
    fraction = (_MICROSECONDS if exact else _FRACTION).match(text, position)
    if fraction is None and exact:
        raise _time_parse_error(text, layout, position, ".000000")
    if fraction is not None:
        position = fraction.end()
    zone = _ZONE.match(text, position)
    if zone is None:
        raise _time_parse_error(text, layout, position, "Z07:00")
    if zone.end() != len(text):
        raise InvalidText(f'parsing time "{text}": extra text: "{text[zone.end() :]}"')
    micros = fraction.group(1)[:6].ljust(6, "0") if fraction else "0"
    try:
        moment = datetime.strptime(text[:19], "%Y-%m-%dT%H:%M:%S").replace(
            microsecond=int(micros), tzinfo=UTC
        )
        if zone.group(1):
            hours, minutes = int(zone.group(2)), int(zone.group(3))
            if hours > 24 or minutes > 60:
                unit = "hour" if hours > 24 else "minute"
                raise InvalidText(f'parsing time "{text}": time zone offset {unit} out of range')
            offset = timedelta(hours=hours, minutes=minutes)
            moment += -offset if zone.group(1) == "+" else offset
    except (ValueError, OverflowError):
        raise InvalidText(f'parsing time "{text}": {_out_of_range(text)} out of range') from None
    return moment


def _time_parse_error(text: str, layout: str, position: int, part: str) -> InvalidText:
    return InvalidText(
        f'parsing time "{text}" as "{layout}": cannot parse "{text[position:]}" as "{part}"'
    )


def _out_of_range(text: str) -> str:
    month, hour, minute, second = (int(text[at : at + 2]) for at in (5, 11, 14, 17))
    if not 1 <= month <= 12:
        return "month"
    if hour > 23:
        return "hour"
    if minute > 59:
        return "minute"
    return "second" if second > 59 else "day"


_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _base64_error_offset(text: str) -> int:
    """The offset at which Go's decoder stops, which works in groups of four."""
    for start in range(0, len(text), 4):
        group = text[start : start + 4]
        for offset, character in enumerate(group):
            if character in _BASE64:
                continue
            at = start + offset
            if character != "=" or offset < 2:
                return at
            if offset == 2:
                if at + 1 == len(text):
                    return len(text)
                if text[at + 1] != "=":
                    return at
            return start + 4
        if len(group) < 4:
            return start
    return len(text)
