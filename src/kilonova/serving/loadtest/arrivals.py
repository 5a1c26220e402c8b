"""When requests of an open loop are to be sent. Pure."""

import math
import random
from collections.abc import Iterator
from typing import Literal

from kilonova.serving.loadtest.profile import LoadProfile, Phase

Arrivals = Literal["constant", "poisson"]


def iterate_arrivals(
    profile: LoadProfile, arrivals: Arrivals, randomness: random.Random
) -> Iterator[float]:
    """Seconds from the start, ascending. The level of the profile is the rate per second.

    Points of a process of rate 1 are mapped by the inverse of the integral of the rate: that is
    exact for steps and ramps, for even distances as for a Poisson process.
    """
    phases = profile.iterate_starts()
    begins, phase = next(phases)
    before = 0.0  # expected arrivals before the phase
    for point in _iterate_points(arrivals, randomness):
        while point >= before + _count_expected(phase):
            before += _count_expected(phase)
            following = next(phases, None)
            if following is None:
                return
            begins, phase = following
        yield begins + _invert(phase, point - before)


def _iterate_points(arrivals: Arrivals, randomness: random.Random) -> Iterator[float]:
    point = 0.0
    while True:
        if arrivals == "poisson":
            point += randomness.expovariate(1.0)
            yield point
        else:
            yield point
            point += 1.0


def _count_expected(phase: Phase) -> float:
    return phase.seconds * (phase.start + phase.end) / 2


def _invert(phase: Phase, count: float) -> float:
    """The time in a phase at which `count` arrivals are expected."""
    if count <= 0:
        return 0.0
    if not phase.is_ramp:
        return count / phase.start
    slope = (phase.end - phase.start) / phase.seconds
    return 2 * count / (phase.start + math.sqrt(phase.start**2 + 2 * slope * count))
