"""Failed daemon pods are replaced later and later, lest a broken one is made without end."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from kilonova.local.controllers.apps.daemonset.desire import Plan
from kilonova.local.controllers.apps.daemonset.eligibility import target_node
from kilonova.local.controllers.apps.objects import DaemonSet
from kilonova.local.controllers.objects import Pod

_FIRST, _LONGEST = 1.0, 900.0
_REMEMBERED = 10_000

_Place = tuple[str, int, str]
"""A set by its uid, its generation, and a node."""


@dataclass(frozen=True, slots=True)
class _Failure:
    at: float
    delay: float


class FailedPods:
    """Remembers when a set failed on a node. A restart forgets, and begins small again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: OrderedDict[_Place, _Failure] = OrderedDict()

    def held_back(self, daemon_set: DaemonSet, plan: Plan) -> tuple[Plan, float | None]:
        """The plan with only those failed pods whose time has come, and when the next one's is."""
        due: list[Pod] = []
        waits: list[float] = []
        for pod in plan.failed:
            place = (
                daemon_set.metadata.uid,
                daemon_set.status.observed_generation,
                target_node(pod) or "",
            )
            wait = self._wait(place)
            if wait > 0:
                waits.append(wait)
            else:
                due.append(pod)
        return replace(plan, failed=due), min(waits, default=None)

    def _wait(self, place: _Place) -> float:
        """How long to wait with a place; where not at all, the next failure there waits longer."""
        now, last = self._clock(), self._last.get(place)
        if last is not None and (left := last.at + last.delay - now) > 0:
            return left
        forgotten = last is None or now - last.at > 2 * _LONGEST
        delay = _FIRST if last is None or forgotten else min(last.delay * 2, _LONGEST)
        self._last[place] = _Failure(now, delay)
        self._last.move_to_end(place)
        if len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)
        return 0.0
