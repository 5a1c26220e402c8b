"""How much is measured: the inputs of every family of rows, and a quick set of them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Inputs:
    """Sizes and counts. The aims are about the values given here."""

    starts: int = 5
    """Starts from nothing; the median counts."""
    pods: int = 10_000
    """Pods created in each measurement of creates."""
    connections: int = 64
    watches: int = 1_000
    events_per_second: int = 100
    watch_seconds: int = 10
    list_pods: int = 50_000
    lists: int = 3
    """Lists of each sort; the median counts."""
    objects: int = 5_000
    """Objects in the store of the reflector."""
    events: int = 100_000
    """Events that reflector, queue and controller take in."""


QUICK = Inputs(starts=3, pods=2_000, watches=200, watch_seconds=3, list_pods=5_000, events=20_000)
"""A look in a minute or two; too short for figures to be quoted."""
