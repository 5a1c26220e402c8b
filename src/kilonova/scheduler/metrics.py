"""What a scheduler tells Prometheus of itself. Names begin with `kilonova_scheduler_`.

Gangs that wait are counted when somebody asks; the rest is counted as it happens, at the cost of
about a microsecond.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily

_DECISION = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5)
_ROUND = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30)
_BINDING = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 120)
_PLACED = (0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 86400)


class SchedulerMetrics:
    """The measurements of one scheduler, in a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        decisions = Histogram(
            "kilonova_scheduler_decision_seconds",
            "Time of a decision about one gang, by what came of it.",
            ["outcome"],
            registry=registry,
            buckets=_DECISION,
        )
        self._placed = decisions.labels("placed")
        self._refused = decisions.labels("refused")
        self._rounds = Histogram(
            "kilonova_scheduler_round_seconds",
            "Time of a round of decisions about all gangs that could have a place.",
            registry=registry,
            buckets=_ROUND,
        )
        bindings = Counter(
            "kilonova_scheduler_bindings", "Bindings of pods.", ["result"], registry=registry
        )
        self._bound, self._not_bound = bindings.labels("bound"), bindings.labels("refused")
        self._binding_time = Histogram(
            "kilonova_scheduler_binding_seconds",
            "Time from the first try of a binding until its answer.",
            registry=registry,
            buckets=_BINDING,
        )
        self._evictions = Counter(
            "kilonova_scheduler_evictions",
            "Pods that were told to go, by why.",
            ["reason"],
            registry=registry,
        )
        self._moves = Counter(
            "kilonova_scheduler_moves",
            "Gangs that were moved so that nodes become free, by what came of it.",
            ["outcome"],
            registry=registry,
        )
        self._errors = Counter(
            "kilonova_scheduler_errors",
            "Unexpected errors that were contained, by the part of the scheduler.",
            ["part"],
            registry=registry,
        )
        self._time_to_place = Histogram(
            "kilonova_scheduler_gang_placed_seconds",
            "From the creation of a gang until all that it needs is bound for the first time.",
            registry=registry,
            buckets=_PLACED,
        )

    def show_pending(self, reasons: Callable[[], Iterable[str]]) -> None:
        """Count gangs that wait, by why, whenever somebody asks."""
        self._registry.register(_Pending(reasons))

    def decided(self, placed: bool, seconds: float) -> None:
        (self._placed if placed else self._refused).observe(seconds)

    def round_taken(self, seconds: float) -> None:
        self._rounds.observe(seconds)

    def binding_ended(self, bound: bool, seconds: float) -> None:
        (self._bound if bound else self._not_bound).inc()
        self._binding_time.observe(seconds)

    def evicted(self, reason: str) -> None:
        self._evictions.labels(reason).inc()

    def moved(self, outcome: str) -> None:
        self._moves.labels(outcome).inc()

    def error_contained(self, part: str) -> None:
        self._errors.labels(part).inc()

    def gang_placed(self, seconds: float) -> None:
        self._time_to_place.observe(max(0.0, seconds))


class _Pending:
    def __init__(self, reasons: Callable[[], Iterable[str]]) -> None:
        self._reasons = reasons

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "kilonova_scheduler_pending_gangs", "Gangs that wait, by why.", labels=["reason"]
        )
        for reason, count in sorted(Tally(self._reasons()).items()):
            family.add_metric([reason], count)
        yield family
