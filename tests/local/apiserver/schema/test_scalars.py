"""Scalars of built-in kinds: valid values, their stored form, and error messages."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.apiserver.schema.scalars import (
    InvalidText,
    read_bytes,
    read_micro_time,
    read_time,
)

DAY = "2006-01-02T15:04:05Z07:00"


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("2020-02-29T00:00:00Z", "2020-02-29T00:00:00Z"),
        ("2020-01-01T00:00:00.999Z", "2020-01-01T00:00:00Z"),
        ("2020-01-01T00:00:00+02:00", "2019-12-31T22:00:00Z"),
    ],
)
def test_time_is_stored_in_utc_and_whole_seconds(text: str, stored: str) -> None:
    assert read_time(text) == stored


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", f'parsing time "" as "{DAY}": cannot parse "" as "2006"'),
        ("2020-1-01T00:00:00Z", 'cannot parse "1-01T00:00:00Z" as "01"'),
        ("2020-01-01 00:00:00Z", 'cannot parse " 00:00:00Z" as "T"'),
        ("2020-01-01T00:00:00", 'cannot parse "" as "Z07:00"'),
        ("2020-01-01T00:00:00Zx", 'parsing time "2020-01-01T00:00:00Zx": extra text: "x"'),
        ("2020-13-01T00:00:00Z", "month out of range"),
        ("2020-02-30T00:00:00Z", "day out of range"),
        ("2020-01-01T24:00:00Z", "hour out of range"),
        ("2020-01-01T00:60:00Z", "minute out of range"),
        ("2020-01-01T00:00:60Z", "second out of range"),
        ("2020-01-01T00:00:00+25:00", "time zone offset hour out of range"),
    ],
)
def test_invalid_time_has_go_error(text: str, error: str) -> None:
    with pytest.raises(InvalidText) as raised:
        read_time(text)
    assert error in str(raised.value)


def test_micro_time_has_six_digits() -> None:
    assert read_micro_time("2020-01-01T00:00:00.000001+01:00") == "2019-12-31T23:00:00.000001Z"
    with pytest.raises(InvalidText, match=r'cannot parse "Z" as "\.0{6}"'):
        read_micro_time("2020-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("YQ", 0),
        ("YQ=", 3),
        ("YWJjZA=", 7),
        ("!YWJj", 0),
        ("YW!j", 2),
        ("YWJj=", 4),
        ("YWJj====", 4),
        ("YQ==YQ==", 4),
        ("Y=Q=", 1),
        ("YWJjYQ==x", 8),
    ],
)
def test_invalid_base64_has_go_error_offset(text: str, position: int) -> None:
    with pytest.raises(InvalidText, match=f"illegal base64 data at input byte {position}$"):
        read_bytes(text)


@given(st.binary(max_size=40), st.integers(0, 40))
def test_base64_is_stored_without_line_breaks(content: bytes, place: int) -> None:
    text = base64.b64encode(content).decode()
    assert read_bytes(f"{text[:place]}\r\n{text[place:]}") == text
