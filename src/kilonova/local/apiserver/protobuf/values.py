"""Values whose JSON form differs from their message: times, quantities, raw JSON and others.

Each reader takes the body and the position of the value's bytes, and returns the JSON value; None
is JSON's null, which the API treats as absent.
"""

from binascii import b2a_base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kilonova.local.apiserver.protobuf.wire import MalformedMessage, iterate_fields, to_signed

ValueReader = Callable[[bytes, int, int, int], Any]
"""Reads `body[start:stop]`; the last argument is the nesting depth."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GO_ZERO_TIME = -62135596800_000_000  # January 1 of year 1, in microseconds
_FIRST_NUMBER, _SECOND_NUMBER = 0x08, 0x10  # tags of fields 1 and 2 as varints,
_FIRST_BYTES, _THIRD_BYTES = 0x0A, 0x1A  # of fields 1 and 3 as bytes


def read_string(body: bytes, start: int, stop: int, _depth: int = 0) -> str:
    return body[start:stop].decode("utf-8", "replace")


def _read_base64(body: bytes, start: int, stop: int, _depth: int) -> str:
    return b2a_base64(body[start:stop], newline=False).decode("ascii")


def _read_timestamp(body: bytes, start: int, stop: int) -> datetime | None:
    microseconds = 0
    for tag, value, _ in iterate_fields(body, start, stop):
        if tag == _FIRST_NUMBER:
            microseconds += to_signed(value, 64) * 1_000_000
        elif tag == _SECOND_NUMBER:
            microseconds += int(to_signed(value, 32) / 1000)
    if start == stop or microseconds == _GO_ZERO_TIME:
        return None
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise MalformedMessage("Time.MarshalJSON: year outside of range [0,9999]") from None


def _read_time(body: bytes, start: int, stop: int, _depth: int) -> str | None:
    instant = _read_timestamp(body, start, stop)
    return instant and instant.isoformat(timespec="seconds")[:-6] + "Z"


def _read_micro_time(body: bytes, start: int, stop: int, _depth: int) -> str | None:
    instant = _read_timestamp(body, start, stop)
    return instant and instant.isoformat(timespec="microseconds")[:-6] + "Z"


def _read_quantity(body: bytes, start: int, stop: int, _depth: int) -> str:
    for tag, begin, end in iterate_fields(body, start, stop):
        if tag == _FIRST_BYTES and begin != end:
            return read_string(body, begin, end)
    return "0"


def _read_int_or_string(body: bytes, start: int, stop: int, _depth: int) -> int | str:
    is_string, number, string = 0, 0, ""
    for tag, value, end in iterate_fields(body, start, stop):
        if tag == _FIRST_NUMBER:
            is_string = value
        elif tag == _SECOND_NUMBER:
            number = to_signed(value, 32)
        elif tag == _THIRD_BYTES:
            string = read_string(body, value, end)
    return string if is_string else number


def _read_json(body: bytes, start: int, stop: int, _depth: int) -> Any:
    for tag, begin, end in iterate_fields(body, start, stop):
        if tag == _FIRST_BYTES and begin != end:
            try:
                return msgspec.json.decode(body[begin:end])
            except (ValueError, RecursionError) as error:
                raise MalformedMessage(f"raw JSON within the message: {error}") from None
    return None


def _read_string_list(body: bytes, start: int, stop: int, _depth: int) -> list[str]:
    return [
        read_string(body, begin, end)
        for tag, begin, end in iterate_fields(body, start, stop)
        if tag == _FIRST_BYTES
    ]


VALUE_READERS: dict[str, ValueReader] = {
    "string": read_string,
    "bytes": _read_base64,
    "time": _read_time,
    "microtime": _read_micro_time,
    "quantity": _read_quantity,
    "int-or-string": _read_int_or_string,
    "json": _read_json,
    "string-list": _read_string_list,
}
"""By type name in the table."""
