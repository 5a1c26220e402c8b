"""Schedules as CronJobs write them: five fields, `@hourly` and its like, `@every 90m`. Pure.

A schedule is in a time zone: what it says is compared with the clock on the wall there. A time
that a change of clocks skips does not come that day; one that it repeats comes twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, timedelta, tzinfo

from kilonova.api.durations import parse_duration
from kilonova.api.times import later

_YEARS_AHEAD = 5
_LONGEST_NUMBER = 19
"""What fits into 64 bits; none that long is of use."""
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
    """A text that is no schedule, in the words that Kubernetes has for it."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    least: int
    most: int
    names: tuple[str, ...] = ()
    first_name: int = 0


_FIELDS = (
    _Bounds(0, 59),
    _Bounds(0, 23),
    _Bounds(1, 31),
    _Bounds(1, 12, tuple(_MONTHS), 1),
    _Bounds(0, 6, tuple(_DAYS), 0),
)


@dataclass(frozen=True, slots=True)
class Every:
    """Again and again after the same time, to the second."""

    seconds: int

    def next(self, after: datetime) -> datetime | None:
        """The first time after another."""
        return later(after.replace(microsecond=0), self.seconds)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The minutes, hours and days at which something happens."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """Sunday is 0."""
    any_day: bool
    """Whether days of the month or of the week are free: then both have to fit, else either."""
    zone: tzinfo = UTC

    def next(self, after: datetime) -> datetime | None:
        """The first time after another, in UTC; None where none comes within five years."""
        if after.year + _YEARS_AHEAD >= MAXYEAR:
            return None  # the calendar ends there
        moment = after.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        local = moment.astimezone(self.zone)
        day = local.date()
        while day.year <= local.year + _YEARS_AHEAD:
            if self._includes(day):
                start = max(moment, datetime(day.year, day.month, day.day, tzinfo=self.zone))
                for found in self._times_of(day, start.astimezone(UTC)):
                    return found
            day = self._following(day)
        return None

    def _following(self, day: date) -> date:
        if day.month not in self.months:
            return (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        return day + timedelta(days=1)

    def _includes(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (of_month and of_week) if self.any_day else (of_month or of_week)

    def _times_of(self, day: date, moment: datetime) -> Iterator[datetime]:
        """The times of a day from a moment on; hours are skipped whole where none fits."""
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


def parse(text: str, zone: str = "") -> Schedule | Every:
    """Read a schedule; `ScheduleError` says what is wrong with it."""
    if not text:
        raise ScheduleError("empty spec string")
    where = zone_named(zone) if zone else UTC
    if text.startswith("@every "):
        try:
            seconds = parse_duration(text.removeprefix("@every "))
        except ValueError as error:
            raise ScheduleError(f"failed to parse duration {text}: {error}") from None
        return Every(max(1, int(seconds)))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise ScheduleError(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    fields = text.split()
    if len(fields) != len(_FIELDS):
        listed = " ".join(fields)
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{listed}]")
    values = [_field(field, bounds) for field, bounds in zip(fields, _FIELDS, strict=True)]
    (minutes, _), (hours, _), (days, free_days), (months, _), (weekdays, free_weekdays) = values
    return Schedule(minutes, hours, days, months, weekdays, free_days or free_weekdays, where)


def zone_named(name: str) -> tzinfo:
    """The time zone of a name; what is raised where there is none is for `zone_problem`."""
    from zoneinfo import ZoneInfo  # it looks around in the system, for few schedules' sake

    return ZoneInfo(name)


def zone_problem(name: str) -> str:
    """Why a name is no time zone; empty where it is one."""
    try:
        zone_named(name)
    except (KeyError, ValueError, OSError):
        return f"unknown time zone {name}"
    return ""


def _field(field: str, bounds: _Bounds) -> tuple[frozenset[int], bool]:
    """The numbers that a field stands for, and whether it leaves all of them free."""
    numbers: set[int] = set()
    free = False
    for piece in filter(None, field.split(",")):
        found, all_of_them = _range(piece, bounds)
        numbers.update(found)
        free |= all_of_them
    return frozenset(numbers), free


def _range(piece: str, bounds: _Bounds) -> tuple[range, bool]:
    span, *steps = piece.split("/")
    ends = span.split("-")
    star = ends[0] in ("*", "?")
    if star:
        first, last = bounds.least, bounds.most
    elif len(ends) > 2:
        raise ScheduleError(f"too many hyphens: {piece}")
    else:
        first, last = (_number(end, bounds) for end in (ends[0], ends[-1]))
    if len(steps) > 1:
        raise ScheduleError(f"too many slashes: {piece}")
    step = _number(steps[0]) if steps else 1
    if steps and len(ends) == 1:
        last = bounds.most
    if first < bounds.least:
        raise ScheduleError(f"beginning of range ({first}) below minimum ({bounds.least}): {piece}")
    if last > bounds.most:
        raise ScheduleError(f"end of range ({last}) above maximum ({bounds.most}): {piece}")
    if first > last:
        raise ScheduleError(f"beginning of range ({first}) beyond end of range ({last}): {piece}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {piece}")
    return range(first, last + 1, step), star and step == 1


def _number(text: str, bounds: _Bounds | None = None) -> int:
    if bounds is not None and text.lower() in bounds.names:
        return bounds.names.index(text.lower()) + bounds.first_name
    trouble = "" if re.fullmatch(r"[+-]?[0-9]+", text) else "invalid syntax"
    if not trouble and len(text) > _LONGEST_NUMBER:
        trouble = "value out of range"
    if trouble:
        raise ScheduleError(
            f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": {trouble}'
        )
    if int(text) < 0:
        raise ScheduleError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
