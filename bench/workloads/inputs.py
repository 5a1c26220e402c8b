"""Sizes of this benchmark."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inputs:
    """Sizes and counts. The targets are for these values."""

    nodes: int = 200
    replicas: int = 500
    """Of the big set; each has two pods."""
    idle_sets: int = 1_000
    """Sets of one replica that do not change."""
    idle_seconds: int = 30
    scale_step: int = 20
    """Replicas that are added to one of them and removed again."""
    rest_looks: int = 5
    """How many consecutive polls, twice a second, the operator must be idle before the next
    step.
    """
    connections: int = 64
    """Concurrent plain requests."""

    @property
    def pods(self) -> int:
        return 2 * self.replicas


QUICK = Inputs(nodes=20, replicas=20, idle_sets=50, idle_seconds=3)
"""Runs in a minute; too small for figures to be quoted."""
