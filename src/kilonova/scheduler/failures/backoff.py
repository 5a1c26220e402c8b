"""Gangs whose bindings or decisions failed are retried with exponential backoff."""

import asyncio
from collections.abc import Callable

from kilonova.kube import Backoff

_BACKOFF = Backoff(1.0, 60.0)
_FORGET_AFTER_SECONDS = 600.0
"""Seconds after which a failure is forgotten."""


class GangBackoff:
    """Gangs in backoff; `wake` is called when one may be retried.

    A backoff ends only when its timer fires, not by comparing clocks: a loop may fire a timer
    slightly early, and the gang would not be woken again.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._failures: dict[str, tuple[int, float]] = {}
        """Number of failures of each gang, and the time of the last one."""
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def __contains__(self, gang: str) -> bool:
        return gang in self._timers

    def record_failure(self, gang: str) -> None:
        """Record a failed attempt and start the backoff."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for old in [
            name for name, (_, at) in self._failures.items() if at < now - _FORGET_AFTER_SECONDS
        ]:
            self.forget(old)
        failures = self._failures.get(gang, (0, now))[0] + 1
        self.forget(gang)
        self._failures[gang] = failures, now
        self._timers[gang] = loop.call_later(_BACKOFF.delay(failures), self._end_backoff, gang)

    def forget(self, gang: str) -> None:
        """Reset the failures of a gang."""
        self._failures.pop(gang, None)
        timer = self._timers.pop(gang, None)
        if timer is not None:
            timer.cancel()

    def _end_backoff(self, gang: str) -> None:
        del self._timers[gang]
        self._wake()
