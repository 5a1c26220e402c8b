"""Yields to the event loop at intervals.

A coroutine whose awaits all complete at once never yields: a stream with data in its buffer, a
reconcile that finds nothing to do. Yielding after each step would cost more than the step.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count

_YIELD_INTERVAL_SECONDS = 0.005
_STEP_SECONDS = 0.0001


_now: Callable[[], float] = time.monotonic
"""The clock of all tasks."""


@contextmanager
def deterministic_yields() -> Generator[None]:
    """Yield after a number of steps instead of a time: the same in every run."""
    global _now
    steps = count()
    original, _now = _now, lambda: next(steps) * _STEP_SECONDS
    try:
        yield
    finally:
        _now = original


class CooperativeYield:
    """Measures how long a task has run, and yields when it is due."""

    __slots__ = ("_last_yield",)

    def __init__(self) -> None:
        self._last_yield = _now()

    async def yield_if_due(self) -> None:
        """Yield to other tasks if the last yield was some milliseconds ago."""
        if _now() - self._last_yield > _YIELD_INTERVAL_SECONDS:
            await asyncio.sleep(0)
            self._last_yield = _now()
