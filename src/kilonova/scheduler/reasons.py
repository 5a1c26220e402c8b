"""Why gangs wait, in words, as long as nobody has to wait for the words.

An explanation costs some milliseconds. Gangs that ask for the same wait for the same reason, so it
is worked out once, on one copy of the cluster that serves for a few seconds.
"""

from collections.abc import Callable, Hashable

from kilonova.scheduler.core.explaining import Explainer
from kilonova.scheduler.core.plan import Policy, Refusal, Reservation, ask_of
from kilonova.scheduler.core.rooms import Score
from kilonova.scheduler.world import World

_FRESH_SECONDS = 5.0


class Reasons:
    """Explains refusals of one scheduler."""

    def __init__(
        self, world: World, score: Score, policy: Policy, now: Callable[[], float]
    ) -> None:
        self._world = world
        self._score = score
        self._policy = policy
        self._now = now
        self._explainer: Explainer | None = None
        self._made = float("-inf")
        self._known: dict[Hashable, str] = {}

    def __call__(self, refusal: Refusal, reservation: Reservation | None) -> str:
        """The message for a gang without a place."""
        now = self._now()
        if self._explainer is None or not 0 <= now - self._made < _FRESH_SECONDS:
            self._explainer = Explainer(self._world.cluster, self._score, self._policy)
            self._made = now
            self._known.clear()
        ask = ask_of(refusal.gang, self._world.cluster.snapshot.neighbours)
        known = self._known.get(ask) if ask is not None else None
        if known is None:
            found = self._explainer.explain(refusal.gang, refusal.why, now, reservation)
            known = found.message
            if ask is not None:
                self._known[ask] = known
        return known
