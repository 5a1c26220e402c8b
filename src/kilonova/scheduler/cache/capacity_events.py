"""Counts the events after which unschedulable gangs may fit."""

from collections.abc import Callable


class CapacityEvents:
    """Unschedulable gangs are not retried before `count` changes; `wake` has a scheduling cycle
    run."""

    __slots__ = ("_wake", "count", "node_count")

    def __init__(self, wake: Callable[[], None]) -> None:
        self.count = 0
        """Number of events that may have freed capacity."""
        self.node_count = 0
        """Number of nodes added or changed."""
        self._wake = wake

    def record(self) -> None:
        """Capacity may have been freed."""
        self.count += 1
        self._wake()
