"""The inputs of every family of rows, and a quick set of them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inputs:
    """Sizes and counts. The targets are for these values."""

    helps: int = 20
    """Runs of each command; the median is reported."""
    starts: int = 3
    """Cold starts and restarts; the median is reported."""
    settle_seconds: int = 40
    """Seconds before the idle cluster is measured."""
    idle_seconds: int = 60
    paints: int = 5
    """Visits of the console with a fresh profile; the median is reported."""
    changes_per_second: int = 200
    change_seconds: int = 20


QUICK = Inputs(helps=5, starts=1, settle_seconds=10, idle_seconds=10, paints=2, change_seconds=5)
"""Runs in two minutes; too short for figures to be quoted."""
