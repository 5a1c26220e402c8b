"""Cron schedules: next times, time zones, and invalid ones."""

from datetime import UTC, datetime

import pytest

from kilonova.api.cron import ScheduleError, parse_schedule


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "then"),
    [
        ("* * * * *", "", "2026-05-01T12:00:30", "2026-05-01T12:01:00"),
        ("*/15 * * * *", "", "2026-05-01T12:00:00", "2026-05-01T12:15:00"),
        ("5/20 * * * *", "", "2026-05-01T12:06:00", "2026-05-01T12:25:00"),
        ("0,30 9-17/4 * * *", "", "2026-05-01T09:31:00", "2026-05-01T13:00:00"),
        ("0 9 * * mon-fri", "", "2026-05-01T09:00:00", "2026-05-04T09:00:00"),
        ("0 9 * * MON", "Europe/Paris", "2026-05-01T09:00:00", "2026-05-04T07:00:00"),
        ("0 0 1 jan *", "", "2026-05-01T00:00:00", "2027-01-01T00:00:00"),
        ("0 0 29 2 *", "", "2026-05-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 0 13 * 5", "", "2026-05-02T00:00:00", "2026-05-08T00:00:00"),
        ("0 0 */2 * 5", "", "2026-05-02T00:00:00", "2026-05-03T00:00:00"),
        ("@hourly", "", "2026-05-01T12:00:00", "2026-05-01T13:00:00"),
        ("@midnight", "America/New_York", "2026-05-01T00:00:00", "2026-05-01T04:00:00"),
        ("@weekly", "", "2026-05-01T00:00:00", "2026-05-03T00:00:00"),
        ("@yearly", "", "2026-05-01T00:00:00", "2027-01-01T00:00:00"),
        ("@every 1h30m", "", "2026-05-01T12:00:30", "2026-05-01T13:30:30"),
        # When clocks go forward, 2:30 does not occur.
        ("30 2 * * *", "Europe/Paris", "2026-03-28T12:00:00", "2026-03-30T00:30:00"),
        # When clocks go back, it occurs twice.
        ("30 2 * * *", "Europe/Paris", "2026-10-25T00:30:00", "2026-10-25T01:30:00"),
    ],
)
def test_next_time_of_a_schedule(schedule: str, zone: str, after: str, then: str) -> None:
    assert parse_schedule(schedule, zone).next(at(after)) == at(then)


def test_schedule_that_never_occurs_has_no_next_time() -> None:
    assert parse_schedule("59 23 31 2 *").next(at("2026-05-01T00:00:00")) is None


@pytest.mark.parametrize(
    ("schedule", "problem"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("9-5 * * * *", "beginning of range (9) beyond end of range (5): 9-5"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("x * * * *", 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("@fortnightly", "unrecognized descriptor: @fortnightly"),
        ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
    ],
)
def test_invalid_schedule_is_rejected_with_reason(schedule: str, problem: str) -> None:
    with pytest.raises(ScheduleError) as error:
        parse_schedule(schedule)
    assert str(error.value) == problem
