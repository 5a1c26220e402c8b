"""Amounts and semantic versions in selectors of devices, and what can be done with them.

They travel as maps with one entry, which is what the runtime can carry.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kilonova.api.quantity import Quantity, QuantityError, parse

Sealed = dict[str, str]

_AMOUNT = "quantity"
_VERSION = "semver"
_NUMBER = "(0|[1-9][0-9]*)"
_PARTS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMVER = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PARTS}))?(?:\+{_PARTS})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Function:
    """A function, or a method of its first parameter; each list of parameters is one overload."""

    name: str
    call: Callable[..., Any]
    parameters: tuple[tuple[str, ...], ...]
    result: str
    member: bool = True


def sealed_amount(nano: int) -> Sealed:
    """An amount in billionths, as expressions have it."""
    return {_AMOUNT: str(nano)}


def sealed_version(text: str) -> Sealed:
    """A semantic version, as expressions have it."""
    return {_VERSION: text}


def _nano(value: Sealed | int) -> int:
    return value * 10**9 if isinstance(value, int) else int(value[_AMOUNT])


def _quantity(text: str) -> Sealed:
    return sealed_amount(parse(text).nano)


def _is_quantity(text: str) -> bool:
    try:
        parse(text)
    except QuantityError:
        return False
    return True


def _semver(text: str, normalize: bool = False) -> Sealed:
    if normalize:
        parts = text.removeprefix("v").split(".", 2)
        parts = [re.sub("^0+(?=[0-9])", "", part) for part in parts]
        text = ".".join(parts + ["0"] * (3 - len(parts)))
    _parts(text)
    return sealed_version(text)


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except ValueError:
        return False
    return True


def _parts(text: str) -> tuple[Any, ...]:
    """What versions are compared by: one before a release comes before it."""
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no semantic version")
    before = tuple(
        (not part.isdigit(), int(part) if part.isdigit() else part)
        for part in (match[4].split(".") if match[4] else ())
    )
    return int(match[1]), int(match[2]), int(match[3]), not before, before


def _compare_to(value: Sealed, other: Sealed) -> int:
    if _VERSION in value:
        left, right = _parts(value[_VERSION]), _parts(other[_VERSION])
        return (left > right) - (left < right)
    return _sign(sealed_amount(_nano(value) - _nano(other)))


def _sign(value: Sealed) -> int:
    nano = _nano(value)
    return (nano > 0) - (nano < 0)


def _is_greater_than(value: Sealed, other: Sealed) -> bool:
    return _compare_to(value, other) > 0


def _is_less_than(value: Sealed, other: Sealed) -> bool:
    return _compare_to(value, other) < 0


def _is_integer(value: Sealed) -> bool:
    return Quantity(_nano(value)).is_integer


def _as_integer(value: Sealed) -> int:
    if not _is_integer(value):
        raise ValueError("cannot convert value to integer")
    return Quantity(_nano(value)).value


def _as_approximate_float(value: Sealed) -> float:
    return float(Quantity(_nano(value)))


def _add(value: Sealed, other: Sealed | int) -> Sealed:
    return sealed_amount(_nano(value) + _nano(other))


def _sub(value: Sealed, other: Sealed | int) -> Sealed:
    return sealed_amount(_nano(value) - _nano(other))


def _major(value: Sealed) -> int:
    return _parts(value[_VERSION])[0]


def _minor(value: Sealed) -> int:
    return _parts(value[_VERSION])[1]


def _patch(value: Sealed) -> int:
    return _parts(value[_VERSION])[2]


_TEXT = (("string",),)
_TEXT_MAYBE_LOOSE = (("string",), ("string", "bool"))
_ONE = (("dyn",),)
_TWO = (("dyn", "dyn"),)

FUNCTIONS = (
    Function("quantity", _quantity, _TEXT, "dyn", member=False),
    Function("isQuantity", _is_quantity, _TEXT, "bool", member=False),
    Function("semver", _semver, _TEXT_MAYBE_LOOSE, "dyn", member=False),
    Function("isSemver", _is_semver, _TEXT_MAYBE_LOOSE, "bool", member=False),
    Function("sign", _sign, _ONE, "int", member=False),
    Function("compareTo", _compare_to, _TWO, "int"),
    Function("isGreaterThan", _is_greater_than, _TWO, "bool"),
    Function("isLessThan", _is_less_than, _TWO, "bool"),
    Function("isInteger", _is_integer, _ONE, "bool"),
    Function("asInteger", _as_integer, _ONE, "int"),
    Function("asApproximateFloat", _as_approximate_float, _ONE, "double"),
    Function("add", _add, _TWO, "dyn"),
    Function("sub", _sub, _TWO, "dyn"),
    Function("major", _major, _ONE, "int"),
    Function("minor", _minor, _ONE, "int"),
    Function("patch", _patch, _ONE, "int"),
)
