"""How often statuses are written while they keep changing."""

from collections.abc import Callable, Hashable


class Pace:
    """Lets the first write of a thing pass at once, and the next ones only some time apart.

    Memory is of what was written within the last interval or two, and harmless to lose.
    """

    def __init__(self, seconds: float, monotonic: Callable[[], float]) -> None:
        self._seconds = seconds
        self._now = monotonic
        self._written: dict[Hashable, float] = {}
        self._swept = monotonic()

    def wait(self, thing: Hashable) -> float:
        """Seconds until the thing may be written again; 0 if it may now."""
        written = self._written.get(thing)
        return 0.0 if written is None else max(0.0, written + self._seconds - self._now())

    def wrote(self, thing: Hashable) -> None:
        """The thing is written now."""
        now = self._now()
        if now - self._swept > self._seconds:
            self._written = {
                each: when for each, when in self._written.items() if now - when < self._seconds
            }
            self._swept = now
        self._written[thing] = now
