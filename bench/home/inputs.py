"""The inputs of every family of rows, and a quick set of them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inputs:
    """Sizes and counts. The targets are for these values."""

    starts: int = 5
    """Cold starts; the median is reported."""
    pods: int = 10_000
    """Pods created in each measurement of creates."""
    connections: int = 64
    watches: int = 1_000
    events_per_second: int = 100
    watch_seconds: int = 10
    list_pods: int = 50_000
    lists: int = 3
    """Lists of each kind; the median is reported."""
    objects: int = 5_000
    """Objects in the store of the reflector."""
    events: int = 100_000
    """Watch events that reflector, work queue and controller process."""


QUICK = Inputs(starts=3, pods=2_000, watches=200, watch_seconds=3, list_pods=5_000, events=20_000)
"""Runs in a minute or two; too short for figures to be quoted."""
