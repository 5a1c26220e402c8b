"""How much may be moved so that nodes become free: what people set, and what is left of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.relocating import Budget

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class MoveLimits:
    """What people allow. A gang that moves counts once, however many pods it has."""

    every: float = 60.0
    """Seconds between two looks at what could be moved."""
    at_once: int = 4
    """Moves that are under way at the same time."""
    per_hour: int = 20
    """Moves within any hour."""
    lost_work: float = 10 * _HOUR
    """GPU-seconds of work that may be lost by the moves of any hour."""
    arrivals_each: int = 0
    """Pods that must have arrived for each move; 0 is no such rule."""
    return_within: float = 120.0
    """Seconds for which room is held for pods that come back, after those before them are gone."""


@dataclass(frozen=True, slots=True)
class Made:
    """A move that was made, and the GPU-seconds of work that it cost."""

    at: float
    work: float


def allowance(
    limits: MoveLimits, made: Sequence[Made], under_way: int, arrived: int, now: float
) -> Budget:
    """What may be moved now, after all moves that were `made`, when so many pods have arrived."""
    lately = [each for each in made if each.at > now - _HOUR]
    moves = min(limits.at_once - under_way, limits.per_hour - len(lately))
    if limits.arrivals_each:
        moves = min(moves, arrived // limits.arrivals_each - len(made))
    work = limits.lost_work - sum(each.work for each in lately)
    return Budget(max(0, moves), max(0.0, work))
