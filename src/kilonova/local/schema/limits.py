"""Rules for a single value of a custom kind: length, range, pattern, format, choice.

Each function reads its rules from the OpenAPI text of a schema and returns the checks they
ask for: an empty list where there are none. A check adds to the problems it is given, and
answers how much of the value it could match (see `validate`).
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value
from kilonova.local.schema.formats import predicate
from kilonova.local.schema.matching import matcher
from kilonova.local.schema.patterns import PatternError

ABSENT: Any = object()
"""There is no earlier value."""

Check = Callable[[Any, str, Any, list[Problem]], int]
"""Given a value, its path, the earlier value or `ABSENT`, and where problems go."""


def string_limits(source: JsonObject, format: str) -> list[Check]:
    checks: list[Check] = []
    longest, shortest = source.get("maxLength"), source.get("minLength")
    pattern: str = source.get("pattern", "")

    def check_text(value: Any, path: str, old: Any, problems: list[Problem]) -> int:
        if longest is not None and len(value) > longest:
            unit = "byte" if longest == 1 else "bytes"
            detail = f"Too long: may not be more than {longest} {unit}"
            problems.append(Problem(_shown_path(path), "FieldValueTooLong", detail))
        elif shortest is not None and len(value) < shortest:
            problems.append(_refused(path, value, f"should be at least {shortest} chars long"))
        elif pattern and not _search(pattern, value):
            problems.append(_refused(path, value, f"should match '{pattern}'"))
        return 1

    if longest is not None or shortest is not None or pattern:
        checks.append(check_text)
    has_format = predicate(format) if format else None
    if has_format is not None:

        def check_format(value: Any, path: str, old: Any, problems: list[Problem]) -> int:
            if not has_format(value):
                problems.append(wrong_type_named(path, format, value))
            return 1

        checks.append(check_format)
    return checks


def number_limits(source: JsonObject, types: tuple[str, ...], format: str) -> list[Check]:
    least, most = source.get("minimum"), source.get("maximum")
    above, below = source.get("exclusiveMinimum", False), source.get("exclusiveMaximum", False)
    factor = source.get("multipleOf")
    only = types[0] if len(types) == 1 else ""

    def check(value: Any, path: str, old: Any, problems: list[Problem]) -> int:
        if only == "integer" and not _is_integer(value, format):
            what = f"with format {format}" if format else "(default format)"
            problems.append(unplaced(f"Checked value must be of type integer {what} in {path}"))
        if factor is not None and not _is_multiple(value, factor):
            problems.append(
                _refused(path, value, f"should be a multiple of {_bound(factor, value)}")
            )
        if least is not None and (value <= least if above else value < least):
            word = "than" if above else "than or equal to"
            problems.append(
                _refused(path, value, f"should be greater {word} {_bound(least, value)}")
            )
        if most is not None and (value >= most if below else value > most):
            word = "than" if below else "than or equal to"
            problems.append(_refused(path, value, f"should be less {word} {_bound(most, value)}"))
        return 2

    return [check] if (least, most, factor) != (None, None, None) or only == "integer" else []


def array_limits(source: JsonObject) -> list[Check]:
    fewest, most = source.get("minItems"), source.get("maxItems")

    def check(value: Any, path: str, old: Any, problems: list[Problem]) -> int:
        if fewest is not None and len(value) < fewest:
            problems.append(_refused(path, len(value), f"should have at least {fewest} items"))
        if most is not None and len(value) > most:
            problems.append(_too_many(path, len(value), most))
        if source.get("uniqueItems") and _has_duplicates(value):
            problems.append(_refused(path, "", "shouldn't contain duplicates"))
        return 0

    limited = fewest is not None or most is not None or source.get("uniqueItems")
    return [check] if limited else []


def object_limits(source: JsonObject) -> list[Check]:
    fewest, most = source.get("minProperties"), source.get("maxProperties")

    def check(value: Any, path: str, old: Any, problems: list[Problem]) -> int:
        if fewest is not None and len(value) < fewest:
            problems.append(_refused(path, len(value), f"should have at least {fewest} properties"))
        if most is not None and len(value) > most:
            problems.append(_too_many(path, len(value), most))
        return 0

    return [check] if fewest is not None or most is not None else []


def enumeration(source: JsonObject) -> list[Check]:
    allowed: list[Any] = source.get("enum") or []
    shown = ", ".join(
        msgspec.json.encode(each if isinstance(each, str) else _json(each)).decode()
        for each in allowed
    )

    def check(value: Any, path: str, old: Any, problems: list[Problem]) -> int:
        if value is None or not any(_same(value, each) for each in allowed):
            refused = f"Unsupported value: {_number(value)}: supported values: {shown}"
            problems.append(Problem(_shown_path(path), "FieldValueNotSupported", refused))
        return 1

    return [check] if allowed else []


def wrong_type_named(path: str, wanted: str, found: str) -> Problem:
    """A value of type `found` (or text that is not of the format `wanted`)."""
    quoted = msgspec.json.encode(found).decode()
    return Problem(
        _shown_path(path),
        "FieldValueTypeInvalid",
        f"Invalid value: {quoted}: {path} in body must be of type {wanted}: {quoted}",
    )


def unplaced(detail: str) -> Problem:
    """A problem that Kubernetes gives no field for; its message says where."""
    return invalid_value("<nil>", "", detail)


def _refused(path: str, value: Any, detail: str) -> Problem:
    return Problem(
        _shown_path(path),
        "FieldValueInvalid",
        f"Invalid value: {_number(value)}: {path} in body {detail}",
    )


def _too_many(path: str, count: int, most: int) -> Problem:
    unit = "item" if most == 1 else "items"
    return Problem(
        _shown_path(path),
        "FieldValueTooMany",
        f"Too many: {count}: must have at most {most} {unit}",
    )


def _shown_path(path: str) -> str:
    return path.removeprefix(".") or "<nil>"


def _search(pattern: str, value: str) -> bool:
    try:
        return matcher(pattern)(value)
    except PatternError:
        return False


def _number(value: Any) -> str:
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


def _json(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e21
    return msgspec.json.encode(int(value) if whole else value).decode()


def _bound(bound: float, value: Any) -> str:
    return _number(int(bound) if type(value) is int else float(bound))


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


def _same(value: Any, other: Any) -> bool:
    """Equal as JSON: Python takes true for 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _has_duplicates(items: list[Any]) -> bool:
    seen = {msgspec.json.encode(item, order="sorted") for item in items}
    return len(seen) < len(items)
