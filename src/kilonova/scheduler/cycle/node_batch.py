"""Batches node events, so that surplus pods do not take what gangs need for their minimum.

Surplus pods are scheduled after all gangs that lack their minimum. Nodes that are uncordoned or
added one after another would defeat that: the first node is too small for a gang of two nodes, and
would go to a surplus pod at once. So surplus pods wait for a short window after the first node
event. Windows do not extend each other: surplus pods are delayed, never starved.
"""

import asyncio
from collections.abc import Callable


class NodeEventBatcher:
    """The window after a node event; `wake` is called when it ends."""

    def __init__(self, seconds: float, wake: Callable[[], None]) -> None:
        self._seconds = seconds
        self._wake = wake
        self._events_seen = 0
        """Node events until the last cycle."""
        self._end: asyncio.TimerHandle | None = None
        self._ended = False
        """A window ended, and surplus pods were not scheduled since."""

    def is_delaying(self, events: int, has_waiting_gangs: bool) -> bool:
        """Whether surplus pods wait, given the number of node events and whether a gang lacks its
        minimum; without one there is nothing to wait for."""
        new, self._events_seen = events != self._events_seen, events
        ended, self._ended = self._ended, False
        if not has_waiting_gangs or ended:
            return False
        if self._end is None and new and self._seconds > 0:
            self._end = asyncio.get_running_loop().call_later(self._seconds, self._end_window)
        return self._end is not None

    def _end_window(self) -> None:
        self._end, self._ended = None, True
        self._wake()
