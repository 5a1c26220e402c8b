"""When a container that keeps ending is started again. Pure."""

from dataclasses import dataclass

FIRST_DELAY = 10.0
LONGEST_DELAY = 300.0


@dataclass(slots=True)
class Backoff:
    """How long a container that keeps ending waits: 10 s, doubled each time, at most 300 s.

    The first restart is at once. After running for ten minutes it begins anew. All times are
    seconds of one clock.
    """

    _delay: float = 0.0
    _updated: float = 0.0

    @property
    def delay(self) -> float:
        """The present delay; 0 before the first restart."""
        return self._delay

    def remaining(self, finished: float, now: float) -> float:
        """How much longer to wait since the container finished; 0 when it may start."""
        if not self._delay or self._has_expired(finished):
            return 0.0
        # A clock that was set back must not make it longer.
        return max(0.0, min(self._delay, finished + self._delay - now))

    def count(self, finished: float, now: float) -> None:
        """It is started again."""
        fresh = not self._delay or self._has_expired(finished)
        self._delay = FIRST_DELAY if fresh else min(2 * self._delay, LONGEST_DELAY)
        self._updated = now

    def _has_expired(self, finished: float) -> bool:
        return finished - self._updated > 2 * LONGEST_DELAY


def spoken_delay(seconds: float) -> str:
    """A delay as Go prints it: `10s`, `1m20s`, `5m0s`."""
    whole = int(seconds)
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
