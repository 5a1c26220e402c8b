"""Back-off of container restarts (CrashLoopBackOff). Pure."""

from dataclasses import dataclass

INITIAL_DELAY = 10.0
MAX_DELAY = 300.0


@dataclass(slots=True)
class ContainerBackoff:
    """The restart delay of a container: 10 s, doubled each time, at most 300 s.

    The first restart is immediate. A run of ten minutes resets the back-off. All times are seconds
    of one clock.
    """

    _delay: float = 0.0
    _updated: float = 0.0

    @property
    def delay(self) -> float:
        """The current delay; 0 before the first restart."""
        return self._delay

    def remaining(self, finished: float, now: float) -> float:
        """The remaining delay since the container finished; 0 when it may start."""
        if not self._delay or self._has_expired(finished):
            return 0.0
        # A clock that was set back must not extend the delay.
        return max(0.0, min(self._delay, finished + self._delay - now))

    def record_restart(self, finished: float, now: float) -> None:
        """The container is restarted."""
        fresh = not self._delay or self._has_expired(finished)
        self._delay = INITIAL_DELAY if fresh else min(2 * self._delay, MAX_DELAY)
        self._updated = now

    def _has_expired(self, finished: float) -> bool:
        return finished - self._updated > 2 * MAX_DELAY


def format_delay(seconds: float) -> str:
    """A duration as Go prints it: `10s`, `1m20s`, `5m0s`."""
    whole = int(seconds)
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
