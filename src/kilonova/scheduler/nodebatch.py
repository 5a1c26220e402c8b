"""Batches node events, so that extras do not take what gangs need for their minimum.

Pods beyond a gang's minimum come after all gangs that wait for theirs. Nodes that are uncordoned or
that join one after another would defeat that: the first free node is too small for a gang of two
nodes, and would go to an extra pod at once. So extras wait for a short window that begins with the
first node event. Windows do not extend each other: extras are delayed, never starved.
"""

import asyncio
from collections.abc import Callable


class NodeBatch:
    """The window after a node event; `wake` is called when it ends."""

    def __init__(self, seconds: float, wake: Callable[[], None]) -> None:
        self._seconds = seconds
        self._wake = wake
        self._seen = 0
        """Node events until the last cycle."""
        self._end: asyncio.TimerHandle | None = None
        self._ended = False
        """A window ended, and extras were not let through yet."""

    def is_open(self, events: int, gangs_wait: bool) -> bool:
        """Whether extras wait, given how many node events there were, and whether a gang waits for
        its minimum; without one there is nothing to wait for."""
        new, self._seen = events != self._seen, events
        ended, self._ended = self._ended, False
        if not gangs_wait or ended:
            return False
        if self._end is None and new and self._seconds > 0:
            self._end = asyncio.get_running_loop().call_later(self._seconds, self._close)
        return self._end is not None

    def _close(self) -> None:
        self._end, self._ended = None, True
        self._wake()
