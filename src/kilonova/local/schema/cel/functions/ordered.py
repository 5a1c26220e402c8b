"""Amounts and semantic versions: foreign values that have an order."""

from __future__ import annotations

import re
from typing import Any

from kilonova.api.quantity import Quantity, QuantityError, parse
from kilonova.local.schema.cel.functions.declare import Library, opened, sealed

ORDERED = Library()

_Sealed = dict[str, str]
_VersionKey = tuple[int, int, int, bool, tuple[tuple[bool, int | str], ...]]

_INT64 = range(-(2**63), 2**63)
_NUMBER = r"(0|[1-9][0-9]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


def _seal(amount: Quantity) -> _Sealed:
    return sealed("quantity", str(amount.nano))


def _amount(value: _Sealed) -> Quantity:
    return Quantity(int(opened("quantity", value)))


def _operand(value: _Sealed | int) -> Quantity:
    return Quantity(value * 10**9) if isinstance(value, int) else _amount(value)


@ORDERED.function("quantity", "string -> quantity")
def quantity(text: str) -> _Sealed:
    return _seal(parse(text))


@ORDERED.function("isQuantity", "string -> bool")
def is_quantity(text: str) -> bool:
    try:
        parse(text)
    except QuantityError:
        return False
    return True


@ORDERED.function("sign", "quantity -> int")
def sign(value: _Sealed) -> int:
    nano = _amount(value).nano
    return (nano > 0) - (nano < 0)


@ORDERED.method("isInteger", "quantity -> bool")
def is_integer(value: _Sealed) -> bool:
    amount = _amount(value)
    return amount.is_integer and amount.value in _INT64


@ORDERED.method("asInteger", "quantity -> int")
def as_integer(value: _Sealed) -> int:
    if not is_integer(value):
        raise ValueError("cannot convert value to integer")
    return _amount(value).value


@ORDERED.method("asApproximateFloat", "quantity -> double")
def as_approximate_float(value: _Sealed) -> float:
    return float(_amount(value))


@ORDERED.method("add", "quantity, quantity -> quantity", "quantity, int -> quantity")
def add(value: _Sealed, other: _Sealed | int) -> _Sealed:
    return _seal(_amount(value) + _operand(other))


@ORDERED.method("sub", "quantity, quantity -> quantity", "quantity, int -> quantity")
def sub(value: _Sealed, other: _Sealed | int) -> _Sealed:
    return _seal(_amount(value) - _operand(other))


def read_version(text: str, normalize: bool = False) -> str:
    """The text of a version without build metadata, which has no part in the order."""
    if normalize:
        text = _normalized(text)
    if not _VERSION.fullmatch(text):
        raise ValueError(f"Invalid character(s) found in version {text!r}")
    return text.partition("+")[0]


def _normalized(text: str) -> str:
    """`v1.02` as `1.2.0`."""
    parts = text.removeprefix("v").split(".", 2)
    if len(parts) < 3 and re.search("[-+]", parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    parts = [re.sub("^0+(?=[0-9])", "", part) for part in parts]
    return ".".join(parts + ["0"] * (3 - len(parts)))


@ORDERED.function("semver", "string -> semver", "string, bool -> semver")
def semver(text: str, normalize: bool = False) -> _Sealed:
    return sealed("semver", read_version(text, normalize))


@ORDERED.function("isSemver", "string -> bool", "string, bool -> bool")
def is_semver(text: str, normalize: bool = False) -> bool:
    try:
        read_version(text, normalize)
    except ValueError:
        return False
    return True


@ORDERED.method("major", "semver -> int")
def major(value: _Sealed) -> int:
    return _version_key(opened("semver", value))[0]


@ORDERED.method("minor", "semver -> int")
def minor(value: _Sealed) -> int:
    return _version_key(opened("semver", value))[1]


@ORDERED.method("patch", "semver -> int")
def patch(value: _Sealed) -> int:
    return _version_key(opened("semver", value))[2]


def _version_key(text: str) -> _VersionKey:
    release, dash, pre = text.partition("-")
    first, second, third = (int(part) for part in release.split("."))
    parts = tuple(
        (not part.isdigit(), int(part) if part.isdigit() else part)
        for part in (pre.split(".") if dash else ())
    )
    return first, second, third, not dash, parts


@ORDERED.method("compareTo", "quantity, quantity -> int", "semver, semver -> int")
def compare_to(value: _Sealed, other: _Sealed) -> int:
    left: Any
    right: Any
    if "quantity" in value:
        left, right = int(value["quantity"]), int(opened("quantity", other))
    else:
        left = _version_key(opened("semver", value))
        right = _version_key(opened("semver", other))
    return (left > right) - (left < right)


@ORDERED.method("isGreaterThan", "quantity, quantity -> bool", "semver, semver -> bool")
def is_greater_than(value: _Sealed, other: _Sealed) -> bool:
    return compare_to(value, other) > 0


@ORDERED.method("isLessThan", "quantity, quantity -> bool", "semver, semver -> bool")
def is_less_than(value: _Sealed, other: _Sealed) -> bool:
    return compare_to(value, other) < 0
