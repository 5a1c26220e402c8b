"""How big the set is, how many others there are, and where they run."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inputs:
    """Sizes and counts. The aims are about the values given here."""

    nodes: int = 200
    replicas: int = 500
    """Of the one set; each has two pods."""
    idle_sets: int = 1_000
    """Sets of no replicas, of which nothing is asked."""
    idle_seconds: int = 30
    rest_looks: int = 5
    """How often in a row, twice a second, the operator must do nothing before what comes next."""
    connections: int = 64
    """Plain requests under way at a time."""

    @property
    def pods(self) -> int:
        return 2 * self.replicas


QUICK = Inputs(nodes=20, replicas=20, idle_sets=50, idle_seconds=3)
"""A look in a minute; too small for figures to be quoted."""
