"""Validation of single values of a custom kind: length, range, pattern, format, enum.

Each function reads its keywords from the OpenAPI source of a schema and returns the checks for
them, possibly none. A check adds errors to a list, and returns how much of the value it matched
(see `validation`).
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, invalid_value
from kilonova.local.apiserver.schema.structural.formats import format_predicate
from kilonova.local.apiserver.schema.structural.pattern_matching import pattern_matcher
from kilonova.local.apiserver.schema.structural.patterns import PatternError

ABSENT: Any = object()
"""There is no previous value."""

ValueCheck = Callable[[Any, str, Any, list[FieldError]], int]
"""Takes a value, its path, the previous value or `ABSENT`, and the list that errors are added to.
"""


def string_checks(source: JsonObject, format: str) -> list[ValueCheck]:
    checks: list[ValueCheck] = []
    max_length, min_length = source.get("maxLength"), source.get("minLength")
    pattern: str = source.get("pattern", "")

    def check_text(value: Any, path: str, old: Any, problems: list[FieldError]) -> int:
        if max_length is not None and len(value) > max_length:
            unit = "byte" if max_length == 1 else "bytes"
            detail = f"Too long: may not be more than {max_length} {unit}"
            problems.append(FieldError(_format_path(path), "FieldValueTooLong", detail))
        elif min_length is not None and len(value) < min_length:
            problems.append(
                _invalid_error(path, value, f"should be at least {min_length} chars long")
            )
        elif pattern and not _matches_pattern(pattern, value):
            problems.append(_invalid_error(path, value, f"should match '{pattern}'"))
        return 1

    if max_length is not None or min_length is not None or pattern:
        checks.append(check_text)
    has_format = format_predicate(format) if format else None
    if has_format is not None:

        def check_format(value: Any, path: str, old: Any, problems: list[FieldError]) -> int:
            if not has_format(value):
                problems.append(wrong_type_error(path, format, value))
            return 1

        checks.append(check_format)
    return checks


def number_checks(source: JsonObject, types: tuple[str, ...], format: str) -> list[ValueCheck]:
    minimum, maximum = source.get("minimum"), source.get("maximum")
    exclusive_minimum, exclusive_maximum = (
        source.get("exclusiveMinimum", False),
        source.get("exclusiveMaximum", False),
    )
    factor = source.get("multipleOf")
    only = types[0] if len(types) == 1 else ""

    def check(value: Any, path: str, old: Any, problems: list[FieldError]) -> int:
        if only == "integer" and not _is_integer(value, format):
            description = f"with format {format}" if format else "(default format)"
            problems.append(
                error_without_path(f"Checked value must be of type integer {description} in {path}")
            )
        if factor is not None and not _is_multiple(value, factor):
            problems.append(
                _invalid_error(
                    path, value, f"should be a multiple of {_format_bound(factor, value)}"
                )
            )
        if minimum is not None and (value <= minimum if exclusive_minimum else value < minimum):
            relation = "than" if exclusive_minimum else "than or equal to"
            problems.append(
                _invalid_error(
                    path, value, f"should be greater {relation} {_format_bound(minimum, value)}"
                )
            )
        if maximum is not None and (value >= maximum if exclusive_maximum else value > maximum):
            relation = "than" if exclusive_maximum else "than or equal to"
            problems.append(
                _invalid_error(
                    path, value, f"should be less {relation} {_format_bound(maximum, value)}"
                )
            )
        return 2

    return [check] if (minimum, maximum, factor) != (None, None, None) or only == "integer" else []


def array_checks(source: JsonObject) -> list[ValueCheck]:
    minimum, maximum = source.get("minItems"), source.get("maxItems")

    def check(value: Any, path: str, old: Any, problems: list[FieldError]) -> int:
        if minimum is not None and len(value) < minimum:
            problems.append(
                _invalid_error(path, len(value), f"should have at least {minimum} items")
            )
        if maximum is not None and len(value) > maximum:
            problems.append(_too_many_error(path, len(value), maximum))
        if source.get("uniqueItems") and _has_duplicates(value):
            problems.append(_invalid_error(path, "", "shouldn't contain duplicates"))
        return 0

    limited = minimum is not None or maximum is not None or source.get("uniqueItems")
    return [check] if limited else []


def object_checks(source: JsonObject) -> list[ValueCheck]:
    minimum, maximum = source.get("minProperties"), source.get("maxProperties")

    def check(value: Any, path: str, old: Any, problems: list[FieldError]) -> int:
        if minimum is not None and len(value) < minimum:
            problems.append(
                _invalid_error(path, len(value), f"should have at least {minimum} properties")
            )
        if maximum is not None and len(value) > maximum:
            problems.append(_too_many_error(path, len(value), maximum))
        return 0

    return [check] if minimum is not None or maximum is not None else []


def enum_checks(source: JsonObject) -> list[ValueCheck]:
    allowed: list[Any] = source.get("enum") or []
    formatted = ", ".join(
        msgspec.json.encode(each if isinstance(each, str) else _format_json(each)).decode()
        for each in allowed
    )

    def check(value: Any, path: str, old: Any, problems: list[FieldError]) -> int:
        if value is None or not any(_json_equal(value, each) for each in allowed):
            detail = f"Unsupported value: {_format_number(value)}: supported values: {formatted}"
            problems.append(FieldError(_format_path(path), "FieldValueNotSupported", detail))
        return 1

    return [check] if allowed else []


def wrong_type_error(path: str, expected: str, actual: str) -> FieldError:
    """A value of type `actual` (or a string that is not of the format `expected`)."""
    quoted = msgspec.json.encode(actual).decode()
    return FieldError(
        _format_path(path),
        "FieldValueTypeInvalid",
        f"Invalid value: {quoted}: {path} in body must be of type {expected}: {quoted}",
    )


def error_without_path(detail: str) -> FieldError:
    """An error for which Kubernetes has no field; its message contains the path."""
    return invalid_value("<nil>", "", detail)


def _invalid_error(path: str, value: Any, detail: str) -> FieldError:
    return FieldError(
        _format_path(path),
        "FieldValueInvalid",
        f"Invalid value: {_format_number(value)}: {path} in body {detail}",
    )


def _too_many_error(path: str, count: int, maximum: int) -> FieldError:
    unit = "item" if maximum == 1 else "items"
    return FieldError(
        _format_path(path),
        "FieldValueTooMany",
        f"Too many: {count}: must have at most {maximum} {unit}",
    )


def _format_path(path: str) -> str:
    return path.removeprefix(".") or "<nil>"


def _matches_pattern(pattern: str, value: str) -> bool:
    try:
        return pattern_matcher(pattern)(value)
    except PatternError:
        return False


def _format_number(value: Any) -> str:
    """A value in a message: JSON, but numbers as Go prints them."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 63:
        value = float(value)
    if not isinstance(value, float):
        return msgspec.json.encode(value).decode()
    number = Decimal(repr(value)).normalize()
    if -4 <= number.adjusted() < 6:
        return f"{number:f}"
    digits, _, exponent = f"{number:e}".partition("e")
    return f"{digits}e{int(exponent):+03d}"


def _format_json(value: Any) -> str:
    is_integral = isinstance(value, float) and value.is_integer() and abs(value) < 1e21
    return msgspec.json.encode(int(value) if is_integral else value).decode()


def _format_bound(bound: float, value: Any) -> str:
    return _format_number(int(bound) if type(value) is int else float(bound))


def _is_integer(value: Any, format: str) -> bool:
    limit = 1 << (31 if format == "int32" else 63)
    if isinstance(value, float) and not value.is_integer():
        return False
    return -limit <= value < limit


def _is_multiple(value: Any, factor: float) -> bool:
    if type(value) is int and float(factor).is_integer():
        return value % int(factor) == 0
    quotient = 1 / factor * value if factor < 1 else value / factor
    return float(quotient).is_integer()


def _json_equal(value: Any, other: Any) -> bool:
    """JSON equality: in Python, true equals 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _has_duplicates(items: list[Any]) -> bool:
    seen = {msgspec.json.encode(item, order="sorted") for item in items}
    return len(seen) < len(items)
