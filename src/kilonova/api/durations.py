"""Durations in Go's format: `1h30m`, `1.5h`, `300ms`."""

import re

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_component = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(h|ms|us|µs|ns|m|s)")
_MAX_SECONDS = (1 << 63) / 1e9
"""Go's durations are nanoseconds in 64 bits."""


def parse_duration(text: str) -> float:
    """The seconds of a duration; `ValueError` with Go's message for an invalid one."""
    unsigned = text[1:] if text[:1] in ("+", "-") else text
    if unsigned == "0":
        return 0.0
    parts: list[tuple[str, str]] = _component.findall(unsigned)
    if not parts or "".join(number + unit for number, unit in parts) != unsigned:
        raise ValueError(f'time: invalid duration "{text}"')
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds >= _MAX_SECONDS:
        raise ValueError(f'time: invalid duration "{text}"')
    return -seconds if text.startswith("-") else seconds
