"""Timestamps in Kubernetes' format, and ages as kubectl prints them."""

from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Meta

Time = Annotated[str, Meta(extra={"format": "date-time"})]
"""A `metav1.Time` as it is read."""

UNKNOWN = "<unknown>"
"""The text for a time that was never set."""

_OFFSET = len("+00:00")
_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR


def format_rfc3339(moment: datetime) -> str:
    """A `metav1.Time`: whole seconds, UTC, `Z`."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")[:-_OFFSET] + "Z"


def format_micro_time(moment: datetime) -> str:
    """A `metav1.MicroTime`: always six digits; client-go rejects fewer."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")[:-_OFFSET] + "Z"


def parse_time(text: str) -> datetime:
    """Parse any RFC 3339 time, to UTC. Raises ValueError for other text."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"no time zone in {text!r}")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} is out of range") from None


def add_seconds(moment: datetime, seconds: float) -> datetime:
    """The time this many seconds later (or earlier), limited to the range of datetime.

    Objects may specify any number of seconds.
    """
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return (datetime.max if seconds > 0 else datetime.min).replace(tzinfo=UTC)


def human_age(timestamp: str | None, now: datetime) -> str:
    """The time since `timestamp`, short; `<unknown>` if there is none."""
    if not timestamp:
        return UNKNOWN
    try:
        moment = parse_time(timestamp)
    except ValueError:
        return "<invalid>"
    return human_duration((now - moment).total_seconds())


def human_duration(elapsed: float) -> str:
    """Two or three significant figures: `119s`, `3m20s`, `7h5m`, `3d4h`, `2y10d`.

    A time one or two seconds in the future counts as now, because of clock skew.
    """
    seconds = int(elapsed)
    if seconds < 0:
        return "0s" if seconds >= -1 else "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    minutes, hours, days = seconds // _MINUTE, seconds // _HOUR, seconds // _DAY
    if minutes < 10:
        return _format_units(minutes, "m", seconds % 60, "s")
    if minutes < 3 * 60:
        return f"{minutes}m"
    if hours < 8:
        return _format_units(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _format_units(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _format_units(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _format_units(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
