"""Sizes and durations of this benchmark."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inputs:
    """Sizes and counts. The targets are for these values."""

    nodes: int = 5_000
    pods: int = 50_000
    idle_nodes: int = 10_000
    """Nodes of the idle cluster."""
    idle_seconds: int = 30
    connections: int = 64
    watches: int = 100
    events_per_second: int = 100
    watch_seconds: int = 10
    lists: int = 3
    """Lists of each kind; the median is reported."""


QUICK = Inputs(nodes=500, pods=5_000, idle_nodes=1_000, idle_seconds=10, watch_seconds=3)
"""Runs in a minute; too small for figures to be quoted."""
