"""Lengths of time as Go writes them: `1h30m`, `1.5h`, `300ms`."""

import re

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_part = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(h|ms|us|µs|ns|m|s)")
_LONGEST = (1 << 63) / 1e9
"""Go counts nanoseconds in 64 bits."""


def parse_duration(text: str) -> float:
    """How many seconds a text stands for; `ValueError` in Go's words where it is no duration."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0.0
    parts: list[tuple[str, str]] = _part.findall(unsigned)
    if not parts or "".join(number + unit for number, unit in parts) != unsigned:
        raise ValueError(f'time: invalid duration "{text}"')
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds >= _LONGEST:
        raise ValueError(f'time: invalid duration "{text}"')
    return -seconds if text.startswith("-") else seconds
