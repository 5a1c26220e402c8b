"""What pods ask the node for, learnt from those that came."""

from collections.abc import Mapping, Sequence

from kilonova.gpu.agent.holders import Holder
from kilonova.gpu.mig.demand import DemandEstimator, expected_stock


class LearntDemand:
    """Counts the MIG instances that pods and claims of the node were assigned.

    Those that are there when the agent starts are no arrivals. `now` is monotonic, in seconds.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._estimator = DemandEstimator()
        self._seen: frozenset[str] | None = None

    def observe(self, holders: Sequence[Holder], now: float) -> None:
        """The holders of devices now."""
        seen = self._seen
        self._seen = frozenset(each.uid for each in holders)
        if seen is None:
            return
        for holder in holders:
            if holder.uid not in seen:
                for device in holder.devices:
                    if device.profile:
                        self._estimator.record(device.profile, now)

    def expected(self, now: float) -> Mapping[str, int]:
        """How many instances of each profile are enough for the next `seconds`."""
        return expected_stock(self._estimator.rates(now), self._seconds)
