"""The faults of a simulated node, in annotations of its Node. Pure.

An annotation works the same whether a user, a script or the random failures set it, and survives a
restart. The value is `true`, or the time until which the fault lasts:

- `sim.kilonova.dev/out`: the node stops posting status, and nothing runs on it;
- `sim.kilonova.dev/pull-errors`: images cannot be pulled;
- `sim.kilonova.dev/lost-gpus`: `0,3` or `0@TIME,3`, the lost GPUs;
- `sim.kilonova.dev/xid`: `CODE@GPU`, an error that crashes the pods using that GPU, once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from kilonova.api.times import format_rfc3339, parse_time

ANNOTATION_PREFIX = "sim.kilonova.dev/"
OUT_ANNOTATION = ANNOTATION_PREFIX + "out"
PULL_ERRORS_ANNOTATION = ANNOTATION_PREFIX + "pull-errors"
LOST_GPUS_ANNOTATION = ANNOTATION_PREFIX + "lost-gpus"
XID_ANNOTATION = ANNOTATION_PREFIX + "xid"
_MAX_DIGITS = 9


@dataclass(frozen=True, slots=True)
class NodeFaults:
    """The faults at one moment, and when the next of them ends."""

    is_out: bool = False
    pull_errors: bool = False
    lost_gpus: frozenset[int] = frozenset()
    xid: tuple[int, int] | None = None
    """Code and GPU."""
    next_end: datetime | None = None


NO_FAULTS = NodeFaults()


def parse_faults(annotations: Mapping[str, str], now: datetime) -> NodeFaults:
    """Parse a node's annotations. Invalid values are ignored."""
    ends: list[datetime] = []
    out = _is_active(annotations.get(OUT_ANNOTATION, ""), now, ends)
    pull_errors = _is_active(annotations.get(PULL_ERRORS_ANNOTATION, ""), now, ends)
    lost = parse_lost_gpus(annotations.get(LOST_GPUS_ANNOTATION, ""))
    still = {gpu for gpu, until in lost.items() if until is None or until > now}
    ends += [until for until in lost.values() if until is not None and until > now]
    return NodeFaults(
        out,
        pull_errors,
        frozenset(still),
        _parse_xid(annotations.get(XID_ANNOTATION, "")),
        min(ends, default=None),
    )


def parse_lost_gpus(text: str) -> dict[int, datetime | None]:
    """The lost GPUs, and until when; None is permanently."""
    lost: dict[int, datetime | None] = {}
    for word in text.split(","):
        number, _, until = word.strip().partition("@")
        if (gpu := _parse_number(number)) is not None:
            lost[gpu] = _parse_time(until)
    return lost


def format_lost_gpus(lost: Mapping[int, datetime | None]) -> str:
    """The value of the annotation."""
    return ",".join(
        f"{gpu}@{format_rfc3339(until)}" if until else str(gpu)
        for gpu, until in sorted(lost.items())
    )


def format_until(until: datetime | None) -> str:
    """The value of an annotation for a fault that lasts until then."""
    return format_rfc3339(until) if until else "true"


def _is_active(text: str, now: datetime, ends: list[datetime]) -> bool:
    if not text or text == "false":
        return False
    until = _parse_time(text)
    if until is None:
        return text == "true"
    if until > now:
        ends.append(until)
        return True
    return False


def _parse_xid(text: str) -> tuple[int, int] | None:
    code, _, gpu = text.partition("@")
    numbers = _parse_number(code), _parse_number(gpu)
    return None if None in numbers else cast("tuple[int, int]", numbers)


def _parse_number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else None


def _parse_time(text: str) -> datetime | None:
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None
