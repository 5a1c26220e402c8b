"""Gangs whose bindings the server refused are left alone for a while."""

import asyncio
from collections.abc import Callable

from kilonova.kube import Backoff

_PAUSES = Backoff(1.0, 60.0)
_FORGOTTEN = 600.0
"""Seconds after a rest when nobody remembers what it was for."""


class Rests:
    """Who rests, longer from time to time; `wake` is called when somebody has rested enough."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def __contains__(self, gang: str) -> bool:
        until = self._until.get(gang)
        return until is not None and asyncio.get_running_loop().time() < until

    def failed(self, gang: str) -> None:
        """A gang was decided about, and it came to nothing."""
        loop = asyncio.get_running_loop()
        for old in [
            gang for gang, until in self._until.items() if until < loop.time() - _FORGOTTEN
        ]:
            self.forget(old)
        failures = self._failures[gang] = self._failures.get(gang, 0) + 1
        delay = _PAUSES.delay(failures)
        self._until[gang] = loop.time() + delay
        loop.call_later(delay, self._wake)

    def forget(self, gang: str) -> None:
        """A gang got its place."""
        self._failures.pop(gang, None)
        self._until.pop(gang, None)
