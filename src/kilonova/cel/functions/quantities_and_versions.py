"""Quantities and semantic versions: opaque values with an order."""

from __future__ import annotations

import re
from typing import Any

from kilonova.api.quantity import Quantity, QuantityError, parse_quantity
from kilonova.cel.functions.declaration import (
    FunctionLibrary,
    unwrap_opaque,
    wrap_opaque,
)

ORDERED = FunctionLibrary()

_Opaque = dict[str, str]
_VersionKey = tuple[int, int, int, bool, tuple[tuple[bool, int | str], ...]]

_INT64 = range(-(2**63), 2**63)
_NUMBER = r"(0|[1-9][0-9]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


def quantity_value(nano: int) -> _Opaque:
    """A quantity in nano-units."""
    return wrap_opaque("quantity", str(nano))


def semver_value(version: str) -> _Opaque:
    """A valid version; build metadata does not affect the order."""
    return wrap_opaque("semver", version.partition("+")[0])


def _unwrap_quantity(value: _Opaque) -> Quantity:
    return Quantity(int(unwrap_opaque("quantity", value)))


def _to_quantity(value: _Opaque | int) -> Quantity:
    return Quantity(value * 10**9) if isinstance(value, int) else _unwrap_quantity(value)


@ORDERED.function("quantity", "string -> quantity")
def quantity(text: str) -> _Opaque:
    return quantity_value(parse_quantity(text).nano)


@ORDERED.function("isQuantity", "string -> bool")
def is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except QuantityError:
        return False
    return True


@ORDERED.function("sign", "quantity -> int")
def sign(value: _Opaque) -> int:
    nano = _unwrap_quantity(value).nano
    return (nano > 0) - (nano < 0)


@ORDERED.method("isInteger", "quantity -> bool")
def is_integer(value: _Opaque) -> bool:
    amount = _unwrap_quantity(value)
    return amount.is_integer and amount.value in _INT64


@ORDERED.method("asInteger", "quantity -> int")
def as_integer(value: _Opaque) -> int:
    if not is_integer(value):
        raise ValueError("cannot convert value to integer")
    return _unwrap_quantity(value).value


@ORDERED.method("asApproximateFloat", "quantity -> double")
def as_approximate_float(value: _Opaque) -> float:
    return float(_unwrap_quantity(value))


@ORDERED.method("add", "quantity, quantity -> quantity", "quantity, int -> quantity")
def add(value: _Opaque, other: _Opaque | int) -> _Opaque:
    return quantity_value((_unwrap_quantity(value) + _to_quantity(other)).nano)


@ORDERED.method("sub", "quantity, quantity -> quantity", "quantity, int -> quantity")
def sub(value: _Opaque, other: _Opaque | int) -> _Opaque:
    return quantity_value((_unwrap_quantity(value) - _to_quantity(other)).nano)


def read_version(text: str, normalize: bool = False) -> str:
    """The text of a version, which is normalised if need be. Raises ValueError."""
    if normalize:
        text = _normalize_version(text)
    if not _VERSION.fullmatch(text):
        raise ValueError(f"Invalid character(s) found in version {text!r}")
    return text


def _normalize_version(text: str) -> str:
    """`v1.02` becomes `1.2.0`."""
    parts = text.removeprefix("v").split(".", 2)
    if len(parts) < 3 and re.search("[-+]", parts[-1]):
        raise ValueError("short version cannot contain PreRelease/Build meta data")
    parts = [re.sub("^0+(?=[0-9])", "", part) for part in parts]
    return ".".join(parts + ["0"] * (3 - len(parts)))


@ORDERED.function("semver", "string -> semver", "string, bool -> semver")
def semver(text: str, normalize: bool = False) -> _Opaque:
    return semver_value(read_version(text, normalize))


@ORDERED.function("isSemver", "string -> bool", "string, bool -> bool")
def is_semver(text: str, normalize: bool = False) -> bool:
    try:
        read_version(text, normalize)
    except ValueError:
        return False
    return True


@ORDERED.method("major", "semver -> int")
def major(value: _Opaque) -> int:
    return _version_key(unwrap_opaque("semver", value))[0]


@ORDERED.method("minor", "semver -> int")
def minor(value: _Opaque) -> int:
    return _version_key(unwrap_opaque("semver", value))[1]


@ORDERED.method("patch", "semver -> int")
def patch(value: _Opaque) -> int:
    return _version_key(unwrap_opaque("semver", value))[2]


def _version_key(text: str) -> _VersionKey:
    release, dash, prerelease = text.partition("-")
    first, second, third = (int(part) for part in release.split("."))
    parts = tuple(
        (not part.isdigit(), int(part) if part.isdigit() else part)
        for part in (prerelease.split(".") if dash else ())
    )
    return first, second, third, not dash, parts


@ORDERED.method("compareTo", "quantity, quantity -> int", "semver, semver -> int")
def compare_to(value: _Opaque, other: _Opaque) -> int:
    left: Any
    right: Any
    if "quantity" in value:
        left, right = int(value["quantity"]), int(unwrap_opaque("quantity", other))
    else:
        left = _version_key(unwrap_opaque("semver", value))
        right = _version_key(unwrap_opaque("semver", other))
    return (left > right) - (left < right)


@ORDERED.method("isGreaterThan", "quantity, quantity -> bool", "semver, semver -> bool")
def is_greater_than(value: _Opaque, other: _Opaque) -> bool:
    return compare_to(value, other) > 0


@ORDERED.method("isLessThan", "quantity, quantity -> bool", "semver, semver -> bool")
def is_less_than(value: _Opaque, other: _Opaque) -> bool:
    return compare_to(value, other) < 0
