"""Quantities of resources in Kubernetes' format: `100m`, `1.5Gi`, `2e3`.

A `Quantity` is an exact number of nanos, with its format. Parsing, order, arithmetic and the
canonical text are those of Kubernetes' `resource.Quantity`, with two deliberate differences: where
the original overflows an int64 or drops a suffix that it has no letter for (`1000E`), the value
here stays exact.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

_NANO = 10**9
_MAX_NANO = (2**63 - 1) * _NANO
_EXPONENT_LIMIT = 1000

_match_quantity = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)"
).fullmatch


class Format(Enum):
    """The suffix family that a quantity was written with, and is formatted with."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX = ("", *_BINARY)


class QuantityError(ValueError):
    """The text is not a quantity."""


class Quantity:
    """An exact quantity. Compared and hashed by value, whatever its format."""

    __slots__ = ("_text", "format", "nano")

    nano: int
    format: Format

    def __init__(self, nano: int, format: Format = Format.DECIMAL, text: str = "") -> None:
        self.nano = nano
        self.format = format
        self._text = text

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero: bytes of memory, number of devices."""
        return _divide_away_from_zero(self.nano, _NANO)

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero: the unit of CPU."""
        return _divide_away_from_zero(self.nano, 10**6)

    @property
    def is_integer(self) -> bool:
        return self.nano % _NANO == 0

    def __float__(self) -> float:
        return self.nano / _NANO

    def __bool__(self) -> bool:
        return self.nano != 0

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, (self if self.nano else other).format)

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, (self if self.nano else other).format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: Quantity) -> bool:
        return self.nano > other.nano

    def __ge__(self, other: Quantity) -> bool:
        return self.nano >= other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __str__(self) -> str:
        """The canonical text, or the original text where Kubernetes keeps it."""
        if not self._text:
            self._text = _format_canonical(self.nano, self.format)
        return self._text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"


@lru_cache(maxsize=8192)
def parse_quantity(text: str) -> Quantity:
    """Parse a quantity. Raises `QuantityError` with Kubernetes' message.

    Quantities repeat, so that most calls are answered from a cache.
    """
    match = _match_quantity(text) if text else None
    if match is None:
        raise QuantityError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    sign, whole, fraction, suffix = match.groups(default="")
    whole = whole.lstrip("0") or "0"
    digits = whole + fraction
    if suffix in _BINARY:
        exponent = _BINARY[suffix]
        format = Format.BINARY
    else:
        exponent, format = _decimal_exponent(suffix)
    try:
        mantissa = int(digits)
    except ValueError:  # more digits than Python parses
        raise QuantityError("unable to parse numeric part of quantity") from None
    if format is Format.BINARY:
        nano = _divide_away_from_zero((mantissa << exponent) * _NANO, 10 ** len(fraction))
        nano = min(nano, _MAX_NANO)
        written = not fraction and mantissa & 7 and len(whole) + exponent * 3 // 10 < 15
        if 0 < nano < _NANO:
            format = Format.DECIMAL
    else:
        scale = exponent - len(fraction)
        nano = _scale(mantissa, scale + 9)
        written = (
            len(digits) <= 18
            and scale >= -9
            and scale % 3 == 0
            and digits[0] != "0"
            and not digits.endswith("000")
        )
    return Quantity(-nano if sign == "-" else nano, format, text if written else "")


def quantity_from_json(value: str | int | float) -> Quantity:
    """Parse a quantity from JSON, where a plain number is allowed."""
    return parse_quantity(value if isinstance(value, str) else repr(value))


def _decimal_exponent(suffix: str) -> tuple[int, Format]:
    exponent = _DECIMAL.get(suffix)
    if exponent is not None:
        return exponent, Format.DECIMAL
    if suffix[0] in "eE":
        try:
            exponent = int(suffix[1:])
        except ValueError:
            exponent = None
    if exponent is None or exponent > _EXPONENT_LIMIT:
        raise QuantityError("unable to parse quantity's suffix")
    return max(exponent, -_EXPONENT_LIMIT), Format.EXPONENT


def _scale(mantissa: int, power: int) -> int:
    if power >= 0:
        return mantissa * 10**power
    return _divide_away_from_zero(mantissa, 10**-power)


def _divide_away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number > 0 else number // divisor


def _format_canonical(nano: int, format: Format) -> str:
    """Format with the largest suffix that leaves a whole number."""
    if nano == 0:
        return "0"
    if format is Format.BINARY:
        units, rest = divmod(nano, _NANO)
        if not rest and not -1024 < units < 1024:
            step = 0
            while units % 1024 == 0:
                units //= 1024
                step += 1
            return f"{units}{_BINARY_SUFFIX[step]}"
        format = Format.DECIMAL
    exponent = -9
    while nano % 1000 == 0:
        nano //= 1000
        exponent += 3
    if format is Format.EXPONENT or exponent not in _DECIMAL_SUFFIX:
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_DECIMAL_SUFFIX[exponent]}"
