"""How long to wait before trying again."""

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubling delays with a ceiling, each shortened at random by up to half.

    The randomness keeps those that failed together from coming back together.
    """

    first: float
    longest: float
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.longest:
            raise ValueError(f"back-off from {self.first} s to {self.longest} s makes no sense")

    def delay(self, failures: int) -> float:
        """The delay in seconds after that many failures in a row (1 is the first)."""
        # 2**64 times anything is past every ceiling; more would overflow a float.
        doubled = self.first * 2.0 ** min(failures - 1, 64)
        return min(doubled, self.longest) * (1 - self.jitter() / 2)
