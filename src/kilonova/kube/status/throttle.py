"""How often statuses are written while they keep changing.

A status write costs the API server more than creating a pod. So urgent statuses are written at once
and others later, often together with the next change. While many objects are being created or
deleted, the first status of a new object is deferred.
"""

from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager

from kilonova.kube.informers.object_keys import Key

_NON_URGENT_FACTOR = 10
"""How many times longer a non-urgent status may wait."""
_CONGESTION_THRESHOLD = 8
"""More writes in flight than this are congestion."""
_MAX_DEFERRAL_SECONDS = 15.0
"""A deferred status is written after this time at the latest."""


class WriteCongestion:
    """Whether many replicas and cliques are writing at once; shared by all controllers."""

    def __init__(self) -> None:
        self._writes_in_flight = 0
        self._enqueue_by_controller: dict[str, Callable[[Key], None]] = {}
        self._deferred: dict[tuple[str, Key], None] = {}

    @property
    def is_congested(self) -> bool:
        """Whether so many writes are in flight that status writes would delay them."""
        return self._writes_in_flight > _CONGESTION_THRESHOLD

    @contextmanager
    def track_write(self) -> Generator[None]:
        """Count the context as a write in flight."""
        self._writes_in_flight += 1
        try:
            yield
        finally:
            self._writes_in_flight -= 1
            if self._deferred and not self.is_congested:
                self._requeue_deferred()

    def register_controller(self, controller: str, enqueue: Callable[[Key], None]) -> None:
        """Register the enqueue function of a controller, called when congestion ends."""
        self._enqueue_by_controller[controller] = enqueue

    def requeue_when_uncongested(self, controller: str, key: Key) -> None:
        """Enqueue a key again when congestion ends; a no-op without congestion."""
        if self.is_congested:
            self._deferred[controller, key] = None

    def _requeue_deferred(self) -> None:
        deferred, self._deferred = self._deferred, {}
        for controller, key in deferred:
            self._enqueue_by_controller[controller](key)


class StatusThrottle:
    """Allows the first write of an object at once, and further ones an interval apart.

    Only writes within the last intervals are remembered; losing them is harmless.
    """

    def __init__(
        self,
        interval: float,
        monotonic: Callable[[], float],
        congestion: WriteCongestion | None = None,
    ) -> None:
        self._interval = interval
        self._now = monotonic
        self._congestion = congestion or WriteCongestion()
        self._last_write: dict[Hashable, float] = {}
        self._pending_since: dict[Hashable, float] = {}
        self._pruned_at = monotonic()

    def get_delay(self, key: Hashable, *, urgent: bool = True, deferrable: bool = False) -> float:
        """Seconds until the status of an object may be written; 0 if it may be now.

        A `deferrable` status also waits for the end of congestion, which may come earlier.
        """
        now, written = self._now(), self._last_write.get(key)
        wait = 0.0 if written is None else written + self._interval - now
        if not urgent:
            wait = max(
                wait, self._get_pending_since(key, now) + _NON_URGENT_FACTOR * self._interval - now
            )
        if deferrable and self._congestion.is_congested:
            wait = max(wait, self._get_pending_since(key, now) + _MAX_DEFERRAL_SECONDS - now)
        return max(0.0, wait)

    def record_write(self, key: Hashable) -> None:
        """Record that the status of an object is written now."""
        now = self._now()
        if now - self._pruned_at > self._interval:
            self._last_write = _keep_newer_than(self._last_write, now - self._interval)
            # An object that has not been tried again by then no longer exists.
            longest = max(_NON_URGENT_FACTOR * self._interval, _MAX_DEFERRAL_SECONDS)
            self._pending_since = _keep_newer_than(self._pending_since, now - 2 * longest)
            self._pruned_at = now
        self._last_write[key] = now
        self._pending_since.pop(key, None)

    def forget(self, key: Hashable) -> None:
        """Let the next status of an object be written at once."""
        self._last_write.pop(key, None)
        self._pending_since.pop(key, None)

    def _get_pending_since(self, key: Hashable, now: float) -> float:
        """When the object first had a status to write."""
        return self._pending_since.setdefault(key, now)


def _keep_newer_than(times: dict[Hashable, float], start: float) -> dict[Hashable, float]:
    return {each: when for each, when in times.items() if when > start}
