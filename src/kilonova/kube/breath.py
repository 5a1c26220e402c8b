"""Lets the event loop breathe.

A coroutine whose awaits are all answered at once never gives way: a stream with data at hand,
a reconcile that finds nothing to do. Giving way after each step would cost more than the step.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count

_LONGEST_SECONDS = 0.005
_STEP_SECONDS = 0.0001


_now: Callable[[], float] = time.monotonic
"""The clock that all tasks go by."""


@contextmanager
def counted_breath() -> Generator[None]:
    """Give way after so many steps instead of so much time: the same in every run."""
    global _now
    steps = count()
    before, _now = _now, lambda: next(steps) * _STEP_SECONDS
    try:
        yield
    finally:
        _now = before


class Breath:
    """Counts how long a task has kept going, and gives way when it is long enough."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = _now()

    async def take_if_due(self) -> None:
        """Give way to other tasks if the last time was some milliseconds ago."""
        if _now() - self._since > _LONGEST_SECONDS:
            await asyncio.sleep(0)
            self._since = _now()
