"""Values whose JSON differs from their message: times, quantities, raw JSON and their like.

Each takes the body and the place of its bytes there, and gives the JSON value; None stands for
JSON's null, which the API takes for absence.
"""

from binascii import b2a_base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kilonova.local.protobuf.wire import Malformed, fields, signed

Value = Callable[[bytes, int, int, int], Any]
"""Reads `body[start:stop]`; the last argument is the depth at which the value stands."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_GO_ZERO_TIME = -62135596800_000_000  # the first of January of the year 1, in microseconds
_FIRST_NUMBER, _SECOND_NUMBER = 0x08, 0x10  # tags of the fields 1 and 2 with numbers,
_FIRST_BYTES, _THIRD_BYTES = 0x0A, 0x1A  # of the fields 1 and 3 with bytes


def text(body: bytes, start: int, stop: int, _depth: int = 0) -> str:
    return body[start:stop].decode("utf-8", "replace")


def _base64(body: bytes, start: int, stop: int, _depth: int) -> str:
    return b2a_base64(body[start:stop], newline=False).decode("ascii")


def _instant(body: bytes, start: int, stop: int) -> datetime | None:
    microseconds = 0
    for tag, value, _ in fields(body, start, stop):
        if tag == _FIRST_NUMBER:
            microseconds += signed(value, 64) * 1_000_000
        elif tag == _SECOND_NUMBER:
            microseconds += int(signed(value, 32) / 1000)
    if start == stop or microseconds == _GO_ZERO_TIME:
        return None
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        raise Malformed("Time.MarshalJSON: year outside of range [0,9999]") from None


def _time(body: bytes, start: int, stop: int, _depth: int) -> str | None:
    instant = _instant(body, start, stop)
    return instant and instant.isoformat(timespec="seconds")[:-6] + "Z"


def _micro_time(body: bytes, start: int, stop: int, _depth: int) -> str | None:
    instant = _instant(body, start, stop)
    return instant and instant.isoformat(timespec="microseconds")[:-6] + "Z"


def _quantity(body: bytes, start: int, stop: int, _depth: int) -> str:
    for tag, begin, end in fields(body, start, stop):
        if tag == _FIRST_BYTES and begin != end:
            return text(body, begin, end)
    return "0"


def _int_or_string(body: bytes, start: int, stop: int, _depth: int) -> int | str:
    is_string, number, string = 0, 0, ""
    for tag, value, end in fields(body, start, stop):
        if tag == _FIRST_NUMBER:
            is_string = value
        elif tag == _SECOND_NUMBER:
            number = signed(value, 32)
        elif tag == _THIRD_BYTES:
            string = text(body, value, end)
    return string if is_string else number


def _json(body: bytes, start: int, stop: int, _depth: int) -> Any:
    for tag, begin, end in fields(body, start, stop):
        if tag == _FIRST_BYTES and begin != end:
            try:
                return msgspec.json.decode(body[begin:end])
            except (ValueError, RecursionError) as error:
                raise Malformed(f"raw JSON within the message: {error}") from None
    return None


def _string_list(body: bytes, start: int, stop: int, _depth: int) -> list[str]:
    return [
        text(body, begin, end)
        for tag, begin, end in fields(body, start, stop)
        if tag == _FIRST_BYTES
    ]


VALUES: dict[str, Value] = {
    "string": text,
    "bytes": _base64,
    "time": _time,
    "microtime": _micro_time,
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    "json": _json,
    "string-list": _string_list,
}
"""By the name that the table has for them."""
