"""The demand: the distribution of pod requests, learned from arriving pods.

Free capacity is useful only if a later pod requests it. Future arrivals are unknown, so the past is
used as an estimate: every arrival counts, later ones more than earlier ones.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU

_HALF_LIFE = 20_000
_MAX_REQUESTS = 2_048
_FIRST_REFRESH = 32
_REFRESH_INTERVAL = 2_000
_RESCALE_WEIGHT = 1e100


@dataclass(frozen=True, slots=True)
class PackingRequest:
    """The part of a pod's requests that matters for packing: CPU in milli, memory in bytes, the
    share `milli` of each of `gpus` devices; empty `models` allows any model."""

    cpu: int = 0
    memory: int = 0
    gpus: int = 0
    milli: int = MILLI_PER_GPU
    models: frozenset[str] = frozenset()

    @property
    def gpu_milli(self) -> int:
        """Milli of GPUs requested."""
        return self.gpus * self.milli

    @property
    def is_shared(self) -> bool:
        """Whether it requests a fraction of a device."""
        return self.gpus > 0 and self.milli < MILLI_PER_GPU


@dataclass(frozen=True, slots=True)
class Demand:
    """Relative frequency of requests: all weights, including those of requests without GPUs, sum to
    1."""

    weights: Mapping[PackingRequest, float]

    @staticmethod
    def from_counts(counts: Mapping[PackingRequest, float]) -> "Demand":
        total = sum(counts.values())
        if total <= 0:
            raise ValueError("a demand needs at least one request with a positive weight")
        return Demand({request: count / total for request, count in counts.items()})

    def mean_gpu_milli(self) -> float:
        """Milli of GPUs that a pod requests on average."""
        return sum(weight * request.gpu_milli for request, weight in self.weights.items())

    def model_scarcity(self, capacity: Mapping[str, int]) -> dict[str, float]:
        """For each model, the fraction of its devices requested by pods that can use few models, if
        the demand equals the capacity of the cluster; `capacity` is the number of devices by model.

        A pod that can use any device is charged for one that other pods cannot do without.
        """
        wanted = dict.fromkeys(capacity, 0.0)
        for request, weight in self.weights.items():
            suiting = {model: capacity[model] for model in request.models if model in capacity}
            devices = sum(suiting.values())
            for model, number in suiting.items():
                wanted[model] += weight * request.gpu_milli * number / max(devices, 1)
        scale = sum(capacity.values()) / max(self.mean_gpu_milli(), 1e-9)
        return {
            model: min(1.0, wanted[model] * scale / number) if number else 0.0
            for model, number in capacity.items()
        }


@dataclass(slots=True)
class ArrivalStatistics:
    """Counts requests as pods arrive; `counts` starts with the expectation before any arrival."""

    counts: dict[PackingRequest, float] = field(
        default_factory=lambda: dict.fromkeys(DEFAULT_REQUESTS, 1.0)
    )
    seen: int = 0
    _weight: float = 1.0
    _next_refresh: int = _FIRST_REFRESH

    def record(self, requests: Iterable[PackingRequest]) -> None:
        """Counts the requests of arriving pods."""
        for request in requests:
            self.counts[request] = self.counts.get(request, 0.0) + self._weight
            self.seen += 1
            self._weight *= 2 ** (1 / _HALF_LIFE)
        if self._weight > _RESCALE_WEIGHT:
            self.counts = {request: count / self._weight for request, count in self.counts.items()}
            self._weight = 1.0
        if len(self.counts) > 2 * _MAX_REQUESTS:
            # The sort is stable: equal arrivals give equal demand.
            kept = sorted(self.counts.items(), key=lambda each: -each[1])[:_MAX_REQUESTS]
            self.counts = dict(kept)

    @property
    def is_refresh_due(self) -> bool:
        """Whether enough pods arrived since the last `compute_demand` to change it: often at first,
        rarely later."""
        return self.seen >= self._next_refresh

    def compute_demand(self) -> Demand:
        self._next_refresh = min(2 * max(self.seen, _FIRST_REFRESH), self.seen + _REFRESH_INTERVAL)
        return Demand.from_counts(self.counts)


def _default_requests() -> tuple[PackingRequest, ...]:
    """The demand before any arrival: whole devices, one and powers of two, and some halves and
    quarters, each with eight cores and 32 GiB per device."""

    def request_for(gpus: int, milli: int = MILLI_PER_GPU) -> PackingRequest:
        return PackingRequest(
            gpus * milli * 8, gpus * milli * (32 << 30) // MILLI_PER_GPU, gpus, milli
        )

    return (
        request_for(1),
        request_for(2),
        request_for(4),
        request_for(8),
        request_for(1, 500),
        request_for(1, 250),
    )


DEFAULT_REQUESTS = _default_requests()
