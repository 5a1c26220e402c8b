"""Why gangs wait, in words, as long as nobody has to wait for the words.

An explanation costs some milliseconds. Gangs that ask for the same wait for the same reason, so it
is worked out once, on one copy of the cluster that serves for a few seconds. Each is told of its
own groups: the explanation is made with placeholders for their names.
"""

from collections.abc import Callable, Hashable
from dataclasses import replace

from kilonova.scheduler.core.explaining import Explainer
from kilonova.scheduler.core.gangs import Gang
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
        key = self._key(refusal, reservation)
        known = self._known.get(key) if key is not None else None
        if known is None:
            anonymous = _anonymous(refusal.gang)
            known = self._explainer.explain(anonymous, refusal.why, now, reservation).message
            if key is not None:
                self._known[key] = known
        for number, group in enumerate(refusal.gang.groups):
            known = known.replace(_placeholder(number), group.name)
        return known

    def _key(self, refusal: Refusal, reservation: Reservation | None) -> Hashable | None:
        """Equal for gangs of which the same is said; None where nothing is known to be equal."""
        gang = refusal.gang
        ask = ask_of(gang, self._world.cluster.snapshot.neighbours)
        if ask is None:
            return None
        sizes = tuple((group.minimum, len(group.members)) for group in gang.groups)
        is_reserved_for = reservation is not None and reservation.gang.name == gang.name
        return ask, sizes, gang.duration, refusal.why, is_reserved_for


def _anonymous(gang: Gang) -> Gang:
    names = {group.name: _placeholder(number) for number, group in enumerate(gang.groups)}
    groups = tuple(replace(group, name=names[group.name]) for group in gang.groups)
    bundles = tuple(
        replace(each, groups=tuple(names.get(name, name) for name in each.groups))
        for each in gang.bundles
    )
    return replace(gang, groups=groups, bundles=bundles)


def _placeholder(number: int) -> str:
    """A name that no group has: names have no control characters."""
    return f"\x02{number}\x03"
