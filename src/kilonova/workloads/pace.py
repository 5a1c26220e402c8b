"""How often statuses are written while they keep changing.

Writing a status costs the server more than making a pod. So what presses is told at once, and that
something is on its way a little later, mostly together with its arrival.
"""

from collections.abc import Callable, Hashable

_CALM = 10
"""How many times longer something may wait that does not press."""


class Pace:
    """Lets the first write of a thing pass at once, and the next ones only some time apart.

    Memory is of what was written within the last interval or two, and harmless to lose.
    """

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._now = monotonic
        self._written: dict[Hashable, float] = {}
        self._wanted: dict[Hashable, float] = {}
        self._swept = monotonic()

    def wait(self, thing: Hashable, *, pressing: bool = True) -> float:
        """Seconds until the thing may be written again; 0 if it may now."""
        now, written = self._now(), self._written.get(thing)
        wait = 0.0 if written is None else written + self._seconds - now
        if not pressing:
            wait = max(wait, self._wanted.setdefault(thing, now) + _CALM * self._seconds - now)
        return max(0.0, wait)

    def wrote(self, thing: Hashable) -> None:
        """The thing is written now."""
        now = self._now()
        if now - self._swept > self._seconds:
            self._written = _since(self._written, now - self._seconds)
            # Whoever has not come back by then has gone.
            self._wanted = _since(self._wanted, now - 2 * _CALM * self._seconds)
            self._swept = now
        self._written[thing] = now
        self._wanted.pop(thing, None)


def _since(times: dict[Hashable, float], start: float) -> dict[Hashable, float]:
    return {each: when for each, when in times.items() if when > start}
