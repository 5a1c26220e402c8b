"""What pods usually ask for, learnt from those that arrived.

What is left on a node is worth something only if somebody wants it. Nobody says beforehand who will
come, so the past stands for the future: every arrival counts, a later one more than an earlier one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kilonova.scheduler.core.devices import WHOLE

_HALF_LIFE = 20_000
_MOST_ASKS = 2_048
_FIRST = 32
_EVERY = 2_000
_HEAVY = 1e100


@dataclass(frozen=True, slots=True)
class Ask:
    """What one pod asks for, as far as packing is concerned: cpu in milli, memory in bytes, of each
    of `gpus` devices the share `milli`; without `models` any model will do."""

    cpu: int = 0
    memory: int = 0
    gpus: int = 0
    milli: int = WHOLE
    models: frozenset[str] = frozenset()

    @property
    def amount(self) -> int:
        """Milli of devices."""
        return self.gpus * self.milli

    @property
    def shares(self) -> bool:
        """Whether others may use the rest of its devices."""
        return self.gpus > 0 and self.milli < WHOLE


@dataclass(frozen=True, slots=True)
class Demand:
    """How often each ask comes: the weights of all, also of those without GPUs, are 1 together."""

    weights: Mapping[Ask, float]

    @staticmethod
    def of(counts: Mapping[Ask, float]) -> "Demand":
        total = sum(counts.values())
        if total <= 0:
            raise ValueError("a demand needs at least one ask that counts")
        return Demand({ask: count / total for ask, count in counts.items()})

    def amount(self) -> float:
        """Milli of devices of a mean pod."""
        return sum(weight * ask.amount for ask, weight in self.weights.items())

    def prices(self, capacity: Mapping[str, int]) -> dict[str, float]:
        """Of each model, which part of its devices is wanted by those who can use few models, if
        the whole cluster is asked for once; `capacity` are devices by model.

        Who would do with any device pays for one that others cannot do without.
        """
        wanted = dict.fromkeys(capacity, 0.0)
        for ask, weight in self.weights.items():
            suiting = {model: capacity[model] for model in ask.models if model in capacity}
            devices = sum(suiting.values())
            for model, number in suiting.items():
                wanted[model] += weight * ask.amount * number / max(devices, 1)
        scale = sum(capacity.values()) / max(self.amount(), 1e-9)
        return {
            model: min(1.0, wanted[model] * scale / number) if number else 0.0
            for model, number in capacity.items()
        }


@dataclass(slots=True)
class Arrivals:
    """Counts asks as they arrive; `counts` are what is expected before any came."""

    counts: dict[Ask, float] = field(default_factory=lambda: dict.fromkeys(USUAL, 1.0))
    seen: int = 0
    _weight: float = 1.0
    _due: int = _FIRST

    def note(self, asks: Iterable[Ask]) -> None:
        """Pods have arrived."""
        for ask in asks:
            self.counts[ask] = self.counts.get(ask, 0.0) + self._weight
            self.seen += 1
            self._weight *= 2 ** (1 / _HALF_LIFE)
        if self._weight > _HEAVY:
            self.counts = {ask: count / self._weight for ask, count in self.counts.items()}
            self._weight = 1.0
        if len(self.counts) > 2 * _MOST_ASKS:
            # The sort keeps earlier ones before later ones: the same arrivals, the same demand.
            kept = sorted(self.counts.items(), key=lambda each: -each[1])[:_MOST_ASKS]
            self.counts = dict(kept)

    @property
    def is_due(self) -> bool:
        """Whether so many came since `demand` was last asked for that it may be another: soon in
        the beginning, seldom later."""
        return self.seen >= self._due

    def demand(self) -> Demand:
        self._due = min(2 * max(self.seen, _FIRST), self.seen + _EVERY)
        return Demand.of(self.counts)


def _usual() -> tuple[Ask, ...]:
    """Whole devices, single and in powers of two, and some halves and quarters, each with eight
    cores and 32 GiB for a device."""

    def ask(gpus: int, milli: int = WHOLE) -> Ask:
        return Ask(gpus * milli * 8, gpus * milli * (32 << 30) // WHOLE, gpus, milli)

    return (ask(1), ask(2), ask(4), ask(8), ask(1, 500), ask(1, 250))


USUAL = _usual()
