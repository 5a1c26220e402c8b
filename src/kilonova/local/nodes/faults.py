"""What is wrong with a simulated node, as its annotations say. Pure.

Faults are annotations of the Node: whoever sets one, a person, a script or chance, and a restart
changes nothing. `true`, or a time until which it lasts:

- `sim.kilonova.dev/out`: the machine is silent, and nothing happens on it;
- `sim.kilonova.dev/pull-errors`: images cannot be pulled;
- `sim.kilonova.dev/lost-gpus`: `0,3` or `0@TIME,3`, the GPUs that are gone;
- `sim.kilonova.dev/xid`: `CODE@GPU`, an error that ends whatever uses that GPU, once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from kilonova.api.times import parse_time, rfc3339

PREFIX = "sim.kilonova.dev/"
OUT = PREFIX + "out"
PULL_ERRORS = PREFIX + "pull-errors"
LOST_GPUS = PREFIX + "lost-gpus"
XID = PREFIX + "xid"
FALLEN_OFF_THE_BUS = 79
_LONGEST_NUMBER = 9

_MEANINGS = {
    13: "Graphics Engine Exception",
    31: "GPU memory page fault",
    43: "GPU stopped processing",
    48: "Double Bit ECC Error",
    63: "ECC page retirement or row remapping recording event",
    64: "ECC page retirement or row remapper recording failure",
    74: "NVLINK Error",
    FALLEN_OFF_THE_BUS: "GPU has fallen off the bus",
    94: "Contained ECC error",
    95: "Uncontained ECC error",
    119: "GSP RPC timeout",
}


@dataclass(frozen=True, slots=True)
class Faults:
    """All that is wrong at a moment, and when something of it ends."""

    out: bool = False
    pull_errors: bool = False
    lost_gpus: frozenset[int] = frozenset()
    xid: tuple[int, int] | None = None
    """Code and GPU."""
    next_end: datetime | None = None


WELL = Faults()


def faults_of(annotations: Mapping[str, str], now: datetime) -> Faults:
    """What the annotations of a node say. What cannot be read is no fault."""
    ends: list[datetime] = []
    out = _lasts(annotations.get(OUT, ""), now, ends)
    pull_errors = _lasts(annotations.get(PULL_ERRORS, ""), now, ends)
    lost = lost_gpus(annotations.get(LOST_GPUS, ""))
    still = {gpu for gpu, until in lost.items() if until is None or until > now}
    ends += [until for until in lost.values() if until is not None and until > now]
    return Faults(
        out, pull_errors, frozenset(still), _xid(annotations.get(XID, "")), min(ends, default=None)
    )


def lost_gpus(text: str) -> dict[int, datetime | None]:
    """Which GPUs are lost, and until when; None is for good."""
    lost: dict[int, datetime | None] = {}
    for word in text.split(","):
        number, _, until = word.strip().partition("@")
        if (gpu := _number(number)) is not None:
            lost[gpu] = _time(until)
    return lost


def lost_gpus_text(lost: Mapping[int, datetime | None]) -> str:
    """The annotation that says so."""
    return ",".join(
        f"{gpu}@{rfc3339(until)}" if until else str(gpu) for gpu, until in sorted(lost.items())
    )


def until_text(until: datetime | None) -> str:
    """The annotation of a fault that lasts until then."""
    return rfc3339(until) if until else "true"


def xid_text(code: int, gpu: int) -> str:
    """What an Xid error is called in logs and events."""
    return f"Xid {code} on GPU {gpu}: {_MEANINGS.get(code, 'see the driver documentation')}"


def _lasts(text: str, now: datetime, ends: list[datetime]) -> bool:
    if not text or text == "false":
        return False
    until = _time(text)
    if until is None:
        return text == "true"
    if until > now:
        ends.append(until)
        return True
    return False


def _xid(text: str) -> tuple[int, int] | None:
    code, _, gpu = text.partition("@")
    numbers = _number(code), _number(gpu)
    return None if None in numbers else cast("tuple[int, int]", numbers)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _LONGEST_NUMBER else None


def _time(text: str) -> datetime | None:
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None
