"""Gangs whose bindings the server refused are left alone for a while."""

import asyncio
from collections.abc import Callable

from kilonova.kube import Backoff

_PAUSES = Backoff(1.0, 60.0)
_FORGOTTEN = 600.0
"""Seconds after a failure when nobody remembers it."""


class Rests:
    """Who rests, longer from time to time; `wake` is called when somebody has rested enough.

    A rest ends when its timer says so, and by no other clock: a loop may call a timer a little
    before its time, and nobody would wake the gang again.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._failures: dict[str, tuple[int, float]] = {}
        """How often a gang failed, and when it last did."""
        self._ends: dict[str, asyncio.TimerHandle] = {}

    def __contains__(self, gang: str) -> bool:
        return gang in self._ends

    def failed(self, gang: str) -> None:
        """A gang was decided about, and it came to nothing."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for old in [name for name, (_, at) in self._failures.items() if at < now - _FORGOTTEN]:
            self.forget(old)
        failures = self._failures.get(gang, (0, now))[0] + 1
        self.forget(gang)
        self._failures[gang] = failures, now
        self._ends[gang] = loop.call_later(_PAUSES.delay(failures), self._end, gang)

    def forget(self, gang: str) -> None:
        """A gang got its place."""
        self._failures.pop(gang, None)
        end = self._ends.pop(gang, None)
        if end is not None:
            end.cancel()

    def _end(self, gang: str) -> None:
        del self._ends[gang]
        self._wake()
