"""Quantities, compared with the results of Go's resource.Quantity."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.api.quantity import (
    Format,
    Quantity,
    QuantityError,
    parse_quantity,
    quantity_from_json,
)

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{s: Fraction(10 ** (3 * i)) for i, s in enumerate(["k", "M", "G", "T", "P"], 1)},
    **{s: Fraction(1024**i) for i, s in enumerate(["Ki", "Mi", "Gi", "Ti"], 1)},
    "e3": Fraction(1000),
    "e-2": Fraction(1, 100),
}

# text, canonical text, format, value, milli: printed by the original.
PARSED_LIKE_KUBERNETES = [
    ("0", "0", "DecimalSI", 0, 0),
    ("1.234", "1.234", "DecimalSI", 2, 1234),
    ("+1", "+1", "DecimalSI", 1, 1000),
    ("1500m", "1500m", "DecimalSI", 2, 1500),
    ("0.5", "500m", "DecimalSI", 1, 500),
    ("1000", "1k", "DecimalSI", 1000, 1000000),
    ("100000", "100k", "DecimalSI", 100000, 100000000),
    ("8Ei", "9223372036854775807", "BinarySI", 2**63 - 1, (2**63 - 1) * 1000),
    ("1Ki", "1Ki", "BinarySI", 1024, 1024000),
    ("1024", "1024", "DecimalSI", 1024, 1024000),
    ("1024Ki", "1Mi", "BinarySI", 1048576, 1048576000),
    ("0.5Ki", "512", "BinarySI", 512, 512000),
    ("1.5Gi", "1536Mi", "BinarySI", 1610612736, 1610612736000),
    ("1.1Ki", "1126400m", "BinarySI", 1127, 1126400),
    ("0.0001Ki", "102400u", "DecimalSI", 1, 103),
    ("1e3", "1e3", "DecimalExponent", 1000, 1000000),
    ("1E3", "1E3", "DecimalExponent", 1000, 1000000),
    ("1E", "1E", "DecimalSI", 10**18, 10**21),
    ("12e-3", "12e-3", "DecimalExponent", 1, 12),
    ("1.5e3", "1500", "DecimalExponent", 1500, 1500000),
    ("1e100", "10e99", "DecimalExponent", 10**100, 10**103),
    ("1e-20", "1e-9", "DecimalExponent", 1, 1),
    ("1.1n", "2n", "DecimalSI", 1, 1),
    ("-1.5", "-1500m", "DecimalSI", -2, -1500),
    ("100000000000000000000", "100E", "DecimalSI", 10**20, 10**23),
    (".5", "500m", "DecimalSI", 1, 500),
    ("1.G", "1.G", "DecimalSI", 10**9, 10**12),
    ("-0", "0", "DecimalSI", 0, 0),
    ("0Ki", "0", "BinarySI", 0, 0),
]

FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX = "unable to parse quantity's suffix"


@pytest.mark.parametrize(("text", "canonical", "form", "value", "milli"), PARSED_LIKE_KUBERNETES)
def test_quantities_parse_like_kubernetes(
    text: str, canonical: str, form: str, value: int, milli: int
) -> None:
    amount = parse_quantity(text)
    assert (str(amount), amount.format.value, amount.value, amount.milli) == (
        canonical,
        form,
        value,
        milli,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FORM),
        ("abc", FORM),
        ("1.1.1", FORM),
        ("1 ", FORM),
        ("١", FORM),
        ("1e", SUFFIX),
        ("5i", SUFFIX),
        ("1mm", SUFFIX),
        ("--1", SUFFIX),
        ("1e99999999999", SUFFIX),
        ("9" * 5000, "unable to parse numeric part of quantity"),
    ],
)
def test_invalid_quantities_are_rejected(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as rejection:
        parse_quantity(text)
    assert str(rejection.value) == message


@pytest.mark.parametrize(
    ("left", "operator", "right", "result"),
    [
        ("1", "+", "2", "3"),
        ("1Gi", "+", "1G", "2073741824"),
        ("0", "+", "1Gi", "1Gi"),
        ("1Gi", "-", "1Gi", "0"),
        ("1Mi", "-", "1", "1048575"),
        ("1Gi", "-", "1536Mi", "-512Mi"),
    ],
)
def test_sum_has_the_format_of_the_first_nonzero_quantity(
    left: str, operator: str, right: str, result: str
) -> None:
    first, second = parse_quantity(left), parse_quantity(right)
    assert str(first + second if operator == "+" else first - second) == result


def test_json_numbers_are_quantities() -> None:
    assert [str(quantity_from_json(value)) for value in (2, 0.5, "1Gi")] == ["2", "500m", "1Gi"]


def test_equal_quantities_have_equal_hashes() -> None:
    assert len({parse_quantity("1024"), parse_quantity("1Ki"), parse_quantity("1024000m")}) == 1


MAX_AMOUNT = 2**63 - 1

amounts = st.builds(
    lambda number, positions, suffix: (
        f"{number / 10**positions:.{positions}f}{suffix}",
        Fraction(f"{number / 10**positions:.{positions}f}") * SUFFIXES[suffix],
    ),
    st.integers(-(10**9), 10**9),
    st.integers(0, 4),
    st.sampled_from(sorted(SUFFIXES)),
)


def stored_amount(text: str, number: Fraction) -> Fraction:
    """The amount that Kubernetes stores: it caps binary ones, and keeps the digits of decimal ones
    beside their exponent."""
    if not text.endswith("i"):
        return number
    return max(Fraction(-MAX_AMOUNT), min(Fraction(MAX_AMOUNT), number))


@given(amounts, amounts)
def test_quantities_are_ordered_by_value(
    left: tuple[str, Fraction], right: tuple[str, Fraction]
) -> None:
    nanos = [abs(number) * 10**9 for _, number in (left, right)]
    if all(nano.denominator == 1 for nano in nanos):
        first, second = (stored_amount(*each) for each in (left, right))
        assert (parse_quantity(left[0]) < parse_quantity(right[0])) == (first < second)
        assert (parse_quantity(left[0]) == parse_quantity(right[0])) == (first == second)


@given(st.integers(-(2**62), 2**62), st.sampled_from(Format))
def test_canonical_text_round_trips(nano: int, form: Format) -> None:
    amount = Quantity(nano, form)
    assert parse_quantity(str(amount)) == amount


@given(amounts, amounts)
def test_addition_and_subtraction_are_inverse(
    left: tuple[str, Fraction], right: tuple[str, Fraction]
) -> None:
    first, second = parse_quantity(left[0]), parse_quantity(right[0])
    assert first + second - second == first
