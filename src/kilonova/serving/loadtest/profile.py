"""How the number of clients, or the rate of requests, changes with time. Pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from kilonova.api.durations import parse_duration

MAX_LEVEL = 100_000
MAX_SECONDS = 24 * 3600.0
_EXAMPLE = "10s:5,20s:30 or, for a ramp, 1m:5-50"


@dataclass(frozen=True, slots=True)
class Phase:
    """A time with a constant level, or with one that changes evenly."""

    seconds: float
    start: float
    end: float

    @property
    def is_ramp(self) -> bool:
        """Whether the level changes."""
        return self.start != self.end and not math.isnan(self.start)

    @property
    def label(self) -> str:
        """The level in words: `30`, `5-50`."""
        return f"{self.start:g}-{self.end:g}" if self.is_ramp else f"{self.start:g}"


@dataclass(frozen=True, slots=True)
class LoadProfile:
    """Phases, one after another."""

    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        if not self.phases:
            raise ValueError(f"there is no phase: write {_EXAMPLE}")
        for phase in self.phases:
            if not 0 < phase.seconds <= MAX_SECONDS:
                raise ValueError(f"a phase of {phase.seconds:g} s: use more than 0, at most 24h")
            if not (0 <= phase.start <= MAX_LEVEL and 0 <= phase.end <= MAX_LEVEL):
                raise ValueError(f"the level {phase.label}: use 0 to {MAX_LEVEL}")
        if not any(phase.start or phase.end for phase in self.phases):
            raise ValueError(f"all levels are 0, and so there is no load: write {_EXAMPLE}")

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return sum(phase.seconds for phase in self.phases)

    @property
    def peak(self) -> float:
        """The highest level."""
        return max(max(phase.start, phase.end) for phase in self.phases)

    def level_at(self, time: float) -> float:
        """The level at a time; that of the end after the end."""
        for begins, phase in self.iterate_starts():
            if time < begins + phase.seconds:
                progress = max(0.0, time - begins) / phase.seconds
                return phase.start + (phase.end - phase.start) * progress
        return self.phases[-1].end

    def iterate_starts(self) -> Iterator[tuple[float, Phase]]:
        """When each phase begins."""
        begins = 0.0
        for phase in self.phases:
            yield begins, phase
            begins += phase.seconds


def build_constant_profile(level: float, seconds: float) -> LoadProfile:
    """One phase."""
    return LoadProfile((Phase(seconds, level, level),))


def parse_profile(text: str) -> LoadProfile:
    """`10s:5,20s:30`; `1m:5-50` is a ramp. `ValueError` states what is wrong."""
    return LoadProfile(tuple(_parse_phase(each.strip()) for each in text.split(",")))


def _parse_phase(text: str) -> Phase:
    seconds, separator, level = text.partition(":")
    start, _, end = level.partition("-")
    if not separator:
        raise ValueError(f"{text!r} has no level: write {_EXAMPLE}")
    try:
        return Phase(parse_duration(seconds), float(start), float(end or start))
    except ValueError:
        raise ValueError(f"{text!r} is no phase: write {_EXAMPLE}") from None
