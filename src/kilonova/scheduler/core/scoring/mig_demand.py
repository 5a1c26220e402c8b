"""The demand for MIG profiles, learned from arriving pods: which slices should stay free.

Every requested instance counts, later ones more than earlier ones. Few observations say little, so
all profiles of a device count the same at first, and less and less afterwards.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kilonova.scheduler.core.gpu.mig import ANY_PROFILE, ProfileDemand
from kilonova.scheduler.core.model.requests import Shape

_HALF_LIFE = 500
"""Number of instances after which an observation counts half."""
_PRIOR_INSTANCES = 8.0
"""Number of instances that count as much as the expectation before any arrival."""
_STEPS = 20
"""Weights are multiples of this fraction: the demand changes only if it matters, and tables over it
are computed for few demands."""
_FORGOTTEN_COUNT = 1e-3


@dataclass(slots=True)
class MigDemand:
    """Counts of requested instances by profile."""

    counts: dict[str, float] = field(default_factory=dict[str, float])

    @staticmethod
    def of_shapes(shapes: Iterable[Shape]) -> "MigDemand":
        """The demand of pods, in this order."""
        demand = MigDemand()
        for shape in shapes:
            demand.record(shape)
        return demand

    def record(self, shape: Shape) -> None:
        """Counts the instances that a pod requests."""
        if shape.gpu is None or not shape.gpu.profile or shape.gpu.count < 1:
            return
        profile, count = shape.gpu.profile, shape.gpu.count
        kept = 0.5 ** (count / _HALF_LIFE)
        self.counts = {
            name: left
            for name, known in self.counts.items()
            if (left := known * kept) > _FORGOTTEN_COUNT
        }
        self.counts[profile] = self.counts.get(profile, 0.0) + count

    def add(self, other: "MigDemand") -> None:
        """Adds the counts of later arrivals."""
        for name, count in other.counts.items():
            self.counts[name] = self.counts.get(name, 0.0) + count

    def weights(self) -> ProfileDemand:
        """Relative frequency of profiles, rounded; empty before any arrival."""
        total = sum(self.counts.values())
        if not total:
            return ()
        shares = {ANY_PROFILE: _PRIOR_INSTANCES, **self.counts}
        whole = total + _PRIOR_INSTANCES
        rounded = ((name, round(each / whole * _STEPS) / _STEPS) for name, each in shares.items())
        return tuple(sorted((name, weight) for name, weight in rounded if weight))
