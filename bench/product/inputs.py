"""How much is measured: the inputs of every family of rows, and a quick set of them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inputs:
    """Sizes and counts. The aims are about the values given here."""

    helps: int = 20
    """Runs of each command; the median counts."""
    starts: int = 3
    """Starts from nothing and on existing data; the median counts."""
    settle_seconds: int = 40
    """How long a cluster is left alone before its idleness is looked at."""
    idle_seconds: int = 60
    paints: int = 5
    """Fresh visits of the console; the median counts."""
    changes_per_second: int = 200
    change_seconds: int = 20


QUICK = Inputs(helps=5, starts=1, settle_seconds=10, idle_seconds=10, paints=2, change_seconds=5)
"""A look in two minutes; too short for figures to be quoted."""
