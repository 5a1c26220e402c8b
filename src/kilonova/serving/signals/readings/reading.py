"""What one gateway or server reports of a group of servers at one time. Pure values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from kilonova.serving.signals.readings.exposition import Sample, parse_value
from kilonova.serving.signals.readings.histogram import Histogram, add, build_histogram, subtract

Gauge = Literal["in_flight", "pending", "held", "queued"]
Counter = Literal["arrivals", "requests", "errors", "rejected", "tokens"]
Measure = Literal["latency", "queue", "compute", "first_token", "inter_token"]

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Reading:
    """Figures since the start of the process, and at this moment."""

    gauges: Mapping[Gauge, float] = field(default_factory=dict[Gauge, float])
    counters: Mapping[Counter, float] = field(default_factory=dict[Counter, float])
    distributions: Mapping[Measure, Histogram] = field(default_factory=dict[Measure, Histogram])


@dataclass(frozen=True, slots=True)
class Increment:
    """What happened between two readings."""

    counters: Mapping[Counter, float] = field(default_factory=dict[Counter, float])
    distributions: Mapping[Measure, Histogram] = field(default_factory=dict[Measure, Histogram])

    @property
    def is_empty(self) -> bool:
        """Whether nothing happened."""
        return not any(self.counters.values()) and not any(
            each.count for each in self.distributions.values()
        )


def subtract_reading(new: Reading, old: Reading) -> Increment:
    """What happened between two readings of one process.

    A counter that became smaller was reset (the process restarted, a model was unloaded): what
    happened in that interval is not known, and is left out. Taking the new value instead would
    count everything again that other models have done since the start.
    """
    counters: dict[Counter, float] = {}
    for counter, after in new.counters.items():
        before = old.counters.get(counter)
        if before is not None and after >= before:
            counters[counter] = after - before
    distributions: dict[Measure, Histogram] = {}
    for measure, later in new.distributions.items():
        earlier = old.distributions.get(measure)
        difference = None if earlier is None else subtract(later, earlier)
        if difference is not None:
            distributions[measure] = difference
    return Increment(counters, distributions)


def add_increments(increments: Iterable[Increment]) -> Increment:
    """All of them together."""
    all_ = list(increments)
    return Increment(
        _merge((each.counters for each in all_), sum),
        _merge((each.distributions for each in all_), add),
    )


def add_gauges(readings: Iterable[Reading]) -> dict[Gauge, float]:
    """The gauges of all processes together; one that no process has is left out."""
    return _merge((each.gauges for each in readings), sum)


V = TypeVar("V")


def _merge(maps: Iterable[Mapping[K, V]], combine: Callable[[list[V]], V]) -> dict[K, V]:
    values: dict[K, list[V]] = defaultdict(list)
    for each in maps:
        for name, value in each.items():
            values[name].append(value)
    return {name: combine(found) for name, found in values.items()}


class HistogramSamples:
    """Collects the samples of one histogram, of all its series together."""

    def __init__(self) -> None:
        self._buckets: dict[float, float] = defaultdict(float)
        self._sum = 0.0
        self._count = 0.0

    def put(self, sample: Sample) -> None:
        """Add a sample `…_bucket`, `…_sum` or `…_count`."""
        if sample.name.endswith("_bucket"):
            bound = parse_value(sample.labels.get("le", ""))
            if bound is not None:
                self._buckets[bound] += sample.value
        elif sample.name.endswith("_sum"):
            self._sum += sample.value
        else:
            self._count += sample.value

    def build(self, scale: float) -> Histogram:
        """The histogram in seconds."""
        return build_histogram(self._buckets, self._sum, self._count, scale)


def list_histogram_names(name: str) -> tuple[str, str, str]:
    """The names of the samples of a histogram."""
    return f"{name}_bucket", f"{name}_sum", f"{name}_count"
