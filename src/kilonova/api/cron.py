"""Schedules in the form of cron: five fields, `@hourly` and similar, `@every 90m`. Pure.

A schedule has a time zone and is compared with its local time. A time that is skipped by a clock
change does not occur that day; a time that is repeated occurs twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, timedelta, tzinfo

from kilonova.api.durations import parse_duration
from kilonova.api.times import add_seconds

_YEARS_AHEAD = 5
_MAX_DIGITS = 19
"""Digits of a 64-bit number; longer ones are invalid."""
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


class ScheduleError(ValueError):
    """An invalid schedule, with Kubernetes' message."""


@dataclass(frozen=True, slots=True)
class _FieldBounds:
    minimum: int
    maximum: int
    names: tuple[str, ...] = ()
    first_name: int = 0


_FIELDS = (
    _FieldBounds(0, 59),
    _FieldBounds(0, 23),
    _FieldBounds(1, 31),
    _FieldBounds(1, 12, tuple(_MONTHS), 1),
    _FieldBounds(0, 6, tuple(_DAYS), 0),
)


@dataclass(frozen=True, slots=True)
class FixedInterval:
    """A constant interval, in whole seconds."""

    seconds: int

    def next(self, after: datetime) -> datetime | None:
        """The first time after another."""
        return add_seconds(after.replace(microsecond=0), self.seconds)


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """The minutes, hours and days of a schedule."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """Sunday is 0."""
    matches_any_day: bool
    """Whether the day of the month or of the week is unrestricted: then both must match, otherwise
    either."""
    zone: tzinfo = UTC

    def next(self, after: datetime) -> datetime | None:
        """The first time after another, in UTC; None if there is none within five years."""
        if after.year + _YEARS_AHEAD >= MAXYEAR:
            return None  # the maximum of datetime
        moment = after.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        local = moment.astimezone(self.zone)
        day = local.date()
        while day.year <= local.year + _YEARS_AHEAD:
            if self._matches_day(day):
                start = max(moment, datetime(day.year, day.month, day.day, tzinfo=self.zone))
                for found in self._times_on_day(day, start.astimezone(UTC)):
                    return found
            day = self._next_day(day)
        return None

    def _next_day(self, day: date) -> date:
        if day.month not in self.months:
            return (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        return day + timedelta(days=1)

    def _matches_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (of_month and of_week) if self.matches_any_day else (of_month or of_week)

    def _times_on_day(self, day: date, moment: datetime) -> Iterator[datetime]:
        """The times of a day from a moment on; hours without a match are skipped."""
        while True:
            local = moment.astimezone(self.zone)
            if local.date() != day:
                return
            if local.hour not in self.hours:
                moment += timedelta(minutes=60 - local.minute)
                continue
            if local.minute in self.minutes:
                yield moment
            moment += timedelta(minutes=1)


def parse_schedule(text: str, zone: str = "") -> CronSchedule | FixedInterval:
    """Parse a schedule; raises `ScheduleError`."""
    if not text:
        raise ScheduleError("empty spec string")
    where = load_time_zone(zone) if zone else UTC
    if text.startswith("@every "):
        try:
            seconds = parse_duration(text.removeprefix("@every "))
        except ValueError as error:
            raise ScheduleError(f"failed to parse duration {text}: {error}") from None
        return FixedInterval(max(1, int(seconds)))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    fields = text.split()
    if len(fields) != len(_FIELDS):
        listed = " ".join(fields)
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{listed}]")
    values = [_parse_field(field, bounds) for field, bounds in zip(fields, _FIELDS, strict=True)]
    (minutes, _), (hours, _), (days, free_days), (months, _), (weekdays, free_weekdays) = values
    return CronSchedule(minutes, hours, days, months, weekdays, free_days or free_weekdays, where)


def load_time_zone(name: str) -> tzinfo:
    """The time zone of a name; `time_zone_error` explains what it raises."""
    from zoneinfo import ZoneInfo  # a costly import that few schedules need

    return ZoneInfo(name)


def time_zone_error(name: str) -> str:
    """Why a name is not a time zone; empty if it is one."""
    try:
        load_time_zone(name)
    except (KeyError, ValueError, OSError):
        return f"unknown time zone {name}"
    return ""


def _parse_field(field: str, bounds: _FieldBounds) -> tuple[frozenset[int], bool]:
    """The numbers that a field matches, and whether it is unrestricted."""
    numbers: set[int] = set()
    free = False
    for piece in filter(None, field.split(",")):
        found, all_of_them = _parse_range(piece, bounds)
        numbers.update(found)
        free |= all_of_them
    return frozenset(numbers), free


def _parse_range(piece: str, bounds: _FieldBounds) -> tuple[range, bool]:
    span, *steps = piece.split("/")
    ends = span.split("-")
    star = ends[0] in ("*", "?")
    if star:
        first, last = bounds.minimum, bounds.maximum
    elif len(ends) > 2:
        raise ScheduleError(f"too many hyphens: {piece}")
    else:
        first, last = (_parse_number(end, bounds) for end in (ends[0], ends[-1]))
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {piece}")
    step = _parse_number(steps[0]) if steps else 1
    if steps and len(ends) == 1:
        last = bounds.maximum
    if first < bounds.minimum:
        raise ScheduleError(
            f"beginning of range ({first}) below minimum ({bounds.minimum}): {piece}"
        )
    if last > bounds.maximum:
        raise ScheduleError(f"end of range ({last}) above maximum ({bounds.maximum}): {piece}")
    if first > last:
        raise ScheduleError(f"beginning of range ({first}) beyond end of range ({last}): {piece}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {piece}")
    return range(first, last + 1, step), star and step == 1


def _parse_number(text: str, bounds: _FieldBounds | None = None) -> int:
    if bounds is not None and text.lower() in bounds.names:
        return bounds.names.index(text.lower()) + bounds.first_name
    problem = "" if re.fullmatch(r"[+-]?[0-9]+", text) else "invalid syntax"
    if not problem and len(text) > _MAX_DIGITS:
        problem = "value out of range"
    if problem:
        raise ScheduleError(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": {problem}'
        )
    if int(text) < 0:
        raise ScheduleError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
