"""Back-off of replacing failed daemon pods, so that none is recreated in a hot loop."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from kilonova.local.controllers.apps.daemonset.desire import DaemonSetPlan
from kilonova.local.controllers.apps.daemonset.eligibility import target_node
from kilonova.local.controllers.apps.objects import DaemonSet
from kilonova.local.objects.core import Pod

_INITIAL_DELAY, _MAX_DELAY = 1.0, 900.0
_MAX_ENTRIES = 10_000

_SetOnNode = tuple[str, int, str]
"""A DaemonSet by its uid, its generation, and a node."""


@dataclass(frozen=True, slots=True)
class _Failure:
    at: float
    delay: float


class FailedPodBackoff:
    """Remembers when a DaemonSet's pod failed on a node. Reset by a restart."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: OrderedDict[_SetOnNode, _Failure] = OrderedDict()

    def hold_back_failed_pods(
        self, daemon_set: DaemonSet, plan: DaemonSetPlan
    ) -> tuple[DaemonSetPlan, float | None]:
        """The plan with only those failed pods whose back-off is over, and the delay of the next
        one.
        """
        due: list[Pod] = []
        waits: list[float] = []
        for pod in plan.failed:
            key = (
                daemon_set.metadata.uid,
                daemon_set.status.observed_generation,
                target_node(pod) or "",
            )
            wait = self._remaining_delay(key)
            if wait > 0:
                waits.append(wait)
            else:
                due.append(pod)
        return replace(plan, failed=due), min(waits, default=None)

    def _remaining_delay(self, key: _SetOnNode) -> float:
        """The remaining back-off on a node; when it is 0, the next failure there waits longer."""
        now, last = self._clock(), self._last.get(key)
        if last is not None and (left := last.at + last.delay - now) > 0:
            return left
        forgotten = last is None or now - last.at > 2 * _MAX_DELAY
        delay = _INITIAL_DELAY if last is None or forgotten else min(last.delay * 2, _MAX_DELAY)
        self._last[key] = _Failure(now, delay)
        self._last.move_to_end(key)
        if len(self._last) > _MAX_ENTRIES:
            self._last.popitem(last=False)
        return 0.0
