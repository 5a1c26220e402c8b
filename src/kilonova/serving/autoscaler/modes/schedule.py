"""Bounds by time of day. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from kilonova.api.cron import ScheduleError, parse_schedule
from kilonova.api.durations import parse_duration
from kilonova.api.serving import Autoscaling, ScheduleEntry


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest number of servers now; where a schedule sets one, which."""

    minimum: int
    maximum: int
    minimum_by: str = ""
    maximum_by: str = ""
    problems: tuple[str, ...] = ()
    """Entries that cannot be read."""


def find_bounds(scaling: Autoscaling, time: datetime) -> Bounds:
    """The bounds at a time: of several entries the greatest minimum, and the least maximum. A
    maximum below the minimum wins: it is what may be spent."""
    minimums: list[tuple[int, str]] = []
    maximums: list[tuple[int, str]] = []
    problems: list[str] = []
    for entry in scaling.schedule:
        try:
            if not is_active(entry, time):
                continue
        except (ScheduleError, ValueError) as error:
            problems.append(f"schedule {entry.start}: {error}")
            continue
        title = f"schedule {entry.start} {entry.time_zone}"
        if entry.min_replicas is not None:
            minimums.append((entry.min_replicas, title))
        if entry.max_replicas is not None:
            maximums.append((entry.max_replicas, title))
    minimum, minimum_by = max(minimums, default=(scaling.min_replicas, ""))
    maximum, maximum_by = min(maximums, default=(scaling.max_replicas, ""))
    return Bounds(min(minimum, maximum), maximum, minimum_by, maximum_by, tuple(problems))


def is_active(entry: ScheduleEntry, time: datetime) -> bool:
    """Whether the time of an entry has started, and is not over; raises `ValueError`."""
    schedule = parse_schedule(entry.start, entry.time_zone)
    start = schedule.next(time - timedelta(seconds=parse_duration(entry.duration)))
    return start is not None and start <= time
