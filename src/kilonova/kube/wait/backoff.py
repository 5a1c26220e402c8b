"""Exponential back-off."""

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubling delays with a maximum, each shortened at random by up to half.

    The jitter keeps clients that failed together from retrying together.
    """

    base_delay: float
    max_delay: float
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if not 0 < self.base_delay <= self.max_delay:
            raise ValueError(
                f"invalid back-off from {self.base_delay} s to {self.max_delay} s: "
                "the first must be positive and at most the second"
            )

    def delay(self, failures: int) -> float:
        """The delay in seconds after this many consecutive failures (1 is the first)."""
        # 2**64 times any delay exceeds every maximum; more would overflow a float.
        doubled = self.base_delay * 2.0 ** min(failures - 1, 64)
        return min(doubled, self.max_delay) * (1 - self.jitter() / 2)
