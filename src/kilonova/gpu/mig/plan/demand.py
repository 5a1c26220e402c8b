"""Which profiles are requested how often, learnt from what pods request."""

import math
from collections.abc import Mapping

from kilonova.scheduler.core.gpu.mig import ProfileDemand

_ROUNDING = 2


class DemandEstimator:
    """Arrivals of each profile per second; those of half a `half_life` ago count half as much."""

    def __init__(
        self,
        half_life: float = 3600.0,
        rates: Mapping[str, float] | None = None,
        updated: float = -math.inf,
    ) -> None:
        """`rates` are those of an earlier estimator, as they were at `updated`."""
        self._decay = math.log(2) / half_life
        self._rates = dict(rates or {})
        self._updated = updated

    def record(self, profile: str, now: float) -> None:
        """A pod has requested an instance of the profile; `now` is in seconds, and never falls."""
        self._age(now)
        self._rates[profile] = self._rates.get(profile, 0.0) + self._decay

    def rates(self, now: float) -> Mapping[str, float]:
        """Arrivals per second."""
        self._age(now)
        return dict(self._rates)

    def demand(self, now: float) -> ProfileDemand:
        """The demand for `kilonova.scheduler.core.gpu.mig`, rounded so that tables are reused."""
        rates = self.rates(now)
        total = sum(rates.values())
        if not total:
            return ()
        shares = ((name, round(rate / total, _ROUNDING)) for name, rate in sorted(rates.items()))
        return tuple((name, share) for name, share in shares if share)

    def _age(self, now: float) -> None:
        if now > self._updated:
            factor = math.exp(-self._decay * (now - self._updated))
            self._rates = {name: rate * factor for name, rate in self._rates.items()}
            self._updated = now


def expected_stock(
    rates: Mapping[str, float], seconds: float, certainty: float = 0.9
) -> Mapping[str, int]:
    """How many instances of each profile are enough for `seconds`, with that probability.

    Arrivals are independent of each other (Poisson); the most requested profile comes first.
    """
    ordered = sorted(rates.items(), key=lambda each: (-each[1], each[0]))
    counts = {name: _poisson_quantile(rate * seconds, certainty) for name, rate in ordered}
    return {name: count for name, count in counts.items() if count}


def _poisson_quantile(mean: float, certainty: float) -> int:
    """The least count that is not exceeded with that probability."""
    term = below = math.exp(-min(mean, 700.0))
    count = 0
    while below < certainty and count < mean + 10 * math.sqrt(mean) + 10:
        count += 1
        term *= mean / count
        below += term
    return count
