"""Lets the event loop breathe.

A coroutine whose awaits are all answered at once never gives way: a stream with data at hand,
a reconcile that finds nothing to do. Giving way after each step would cost more than the step.
"""

import asyncio
import time

_LONGEST_SECONDS = 0.005


class Breath:
    """Counts how long a task has kept going, and gives way when it is long enough."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = time.monotonic()

    async def take_if_due(self) -> None:
        """Give way to other tasks if the last time was some milliseconds ago."""
        if time.monotonic() - self._since > _LONGEST_SECONDS:
            await asyncio.sleep(0)
            self._since = time.monotonic()
