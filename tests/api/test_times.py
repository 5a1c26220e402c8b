"""Timestamps on the wire, and ages as kubectl prints them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.api.times import (
    format_micro_time,
    format_rfc3339,
    human_age,
    human_duration,
    parse_time,
)

MINUTE, HOUR, DAY = 60, 3600, 86400
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=timezone(timedelta(hours=1)))


def test_time_has_whole_seconds_in_utc() -> None:
    assert format_rfc3339(MOMENT) == "2026-01-02T02:04:05Z"


def test_micro_time_always_has_six_digits() -> None:
    assert format_micro_time(MOMENT) == "2026-01-02T02:04:05.678900Z"
    assert format_micro_time(MOMENT.replace(microsecond=0)) == "2026-01-02T02:04:05.000000Z"


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(1970, 1, 1)))
def test_micro_time_round_trips(moment: datetime) -> None:
    assert parse_time(format_micro_time(moment)) == moment


def test_time_without_zone_is_invalid() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        parse_time("2026-01-02T03:04:05")


@pytest.mark.parametrize(
    ("seconds", "printed"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 5, "2m5s"),
        (10 * MINUTE + 5, "10m"),
        (179 * MINUTE, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 5 * MINUTE, "7h5m"),
        (8 * HOUR + 5 * MINUTE, "8h"),
        (47 * HOUR, "47h"),
        (2 * DAY, "2d"),
        (3 * DAY + 4 * HOUR, "3d4h"),
        (8 * DAY + 4 * HOUR, "8d"),
        (729 * DAY, "729d"),
        (2 * 365 * DAY, "2y"),
        (2 * 365 * DAY + 10 * DAY, "2y10d"),
        (8 * 365 * DAY + 10 * DAY, "8y"),
    ],
)
def test_age_has_two_or_three_figures(seconds: int, printed: str) -> None:
    assert human_duration(seconds) == printed


def test_missing_age_is_unknown() -> None:
    assert human_age(None, MOMENT) == "<unknown>"
    assert human_age("yesterday", MOMENT) == "<invalid>"
