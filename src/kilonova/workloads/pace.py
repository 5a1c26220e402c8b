"""How often statuses are written while they keep changing.

Writing a status costs the server more than making a pod. So what presses is told at once, and that
something is on its way a little later, mostly together with its arrival. While many objects are
made or taken away, what has just been made says nothing yet: the server has better things to do.
"""

from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager

from kilonova.kube import Key

_CALM = 10
"""How many times longer something may wait that does not press."""
_FEW = 8
"""Acts under way that do not make a rush yet."""
_LONGEST_SECONDS = 15.0
"""What gives way to a rush gives way no longer."""


class Rush:
    """Whether many replicas and cliques are acting at once; one of all controllers."""

    def __init__(self) -> None:
        self._acts = 0
        self._listeners: dict[str, Callable[[Key], None]] = {}
        self._waiting: dict[tuple[str, Key], None] = {}

    @property
    def is_on(self) -> bool:
        """Whether there are so many that telling of others would hold them up."""
        return self._acts > _FEW

    @contextmanager
    def act(self) -> Generator[None]:
        """Something is made or taken away within the context."""
        self._acts += 1
        try:
            yield
        finally:
            self._acts -= 1
            if self._waiting and not self.is_on:
                self._let_go_on()

    def listen(self, who: str, again: Callable[[Key], None]) -> None:
        """Who is to be called with keys that were waiting for the end of a rush."""
        self._listeners[who] = again

    def await_end(self, who: str, key: Key) -> None:
        """Have a key worked on again when the rush is over; nothing if there is none."""
        if self.is_on:
            self._waiting[who, key] = None

    def _let_go_on(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for who, key in waiting:
            self._listeners[who](key)


class Pace:
    """Lets the first write of a thing pass at once, and the next ones only some time apart.

    Memory is of what was written within the last interval or two, and harmless to lose.
    """

    def __init__(
        self, seconds: float, monotonic: Callable[[], float], rush: Rush | None = None
    ) -> None:
        self._seconds = seconds
        self._now = monotonic
        self._rush = rush or Rush()
        self._written: dict[Hashable, float] = {}
        self._wanted: dict[Hashable, float] = {}
        self._swept = monotonic()

    def wait(self, thing: Hashable, *, pressing: bool = True, gives_way: bool = False) -> float:
        """Seconds until the thing may be written again; 0 if it may now.

        What `gives_way` waits for the end of a rush though it presses; that may come earlier.
        """
        now, written = self._now(), self._written.get(thing)
        wait = 0.0 if written is None else written + self._seconds - now
        if not pressing:
            wait = max(wait, self._since(thing, now) + _CALM * self._seconds - now)
        if gives_way and self._rush.is_on:
            wait = max(wait, self._since(thing, now) + _LONGEST_SECONDS - now)
        return max(0.0, wait)

    def wrote(self, thing: Hashable) -> None:
        """The thing is written now."""
        now = self._now()
        if now - self._swept > self._seconds:
            self._written = _later(self._written, now - self._seconds)
            # Whoever has not come back by then has gone.
            longest = max(_CALM * self._seconds, _LONGEST_SECONDS)
            self._wanted = _later(self._wanted, now - 2 * longest)
            self._swept = now
        self._written[thing] = now
        self._wanted.pop(thing, None)

    def _since(self, thing: Hashable, now: float) -> float:
        """When the thing was first to be written."""
        return self._wanted.setdefault(thing, now)


def _later(times: dict[Hashable, float], start: float) -> dict[Hashable, float]:
    return {each: when for each, when in times.items() if when > start}
