"""Prometheus metrics of the scheduler. Names begin with `kilonova_scheduler_`; what KGWE has a name
for is there under that name, too.

Pending gangs are counted when the metrics are scraped; everything else is counted as it happens, at
about a microsecond each.
"""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram

from kilonova.kube.observability.object_metrics import CountCollector

_DECISION = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5)
_CYCLE = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30)
_KGWE_LATENCY = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000)
"""Milliseconds."""
_BINDING = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 120)
_PREEMPTED = "Preempted"
"""The reason of evictions for the sake of other pods."""
_TIME_TO_PLACE = (0.5, 1, 2.5, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 86400)


class SchedulerMetrics:
    """The metrics of one scheduler, in a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        decisions = Histogram(
            "kilonova_scheduler_decision_seconds",
            "Duration of the scheduling of one gang, by outcome.",
            ["outcome"],
            registry=registry,
            buckets=_DECISION,
        )
        self._placed = decisions.labels("placed")
        self._rejected = decisions.labels("rejected")
        self._cycles = Histogram(
            "kilonova_scheduler_cycle_seconds",
            "Duration of a scheduling cycle over all gangs that are due.",
            registry=registry,
            buckets=_CYCLE,
        )
        bindings = Counter(
            "kilonova_scheduler_bindings", "Bindings of pods.", ["result"], registry=registry
        )
        self._bound, self._binding_failed = bindings.labels("bound"), bindings.labels("failed")
        self._binding_time = Histogram(
            "kilonova_scheduler_binding_seconds",
            "Duration of the binding of a pod, from the first attempt to the final answer.",
            registry=registry,
            buckets=_BINDING,
        )
        self._evictions = Counter(
            "kilonova_scheduler_evictions",
            "Pods evicted by the scheduler, by reason.",
            ["reason"],
            registry=registry,
        )
        self._migrations = Counter(
            "kilonova_scheduler_migrations",
            "Migrations of gangs by consolidation, by outcome.",
            ["outcome"],
            registry=registry,
        )
        self._mig_rebalances = Counter(
            "kilonova_scheduler_mig_rebalances",
            "Rebalancings of MIG instances by eviction of pods, by outcome.",
            ["outcome"],
            registry=registry,
        )
        self._errors = Counter(
            "kilonova_scheduler_errors",
            "Unexpected errors that were contained, by part of the scheduler.",
            ["part"],
            registry=registry,
        )
        self._time_to_place = Histogram(
            "kilonova_scheduler_gang_bound_seconds",
            "Time from the creation of a gang until its minimum is bound for the first time.",
            registry=registry,
            buckets=_TIME_TO_PLACE,
        )
        self._kgwe = _KgweMetrics(registry)

    def export_pending_gangs(self, reasons: Callable[[], Iterable[str]]) -> None:
        """Register a collector that counts pending gangs by reason at every scrape."""
        self._registry.register(
            CountCollector(
                "kilonova_scheduler_pending_gangs", "Pending gangs, by reason.", "reason", reasons
            )
        )

    def observe_decision(self, placed: bool, seconds: float) -> None:
        (self._placed if placed else self._rejected).observe(seconds)
        self._kgwe.observe_decision(placed, seconds)

    def observe_cycle(self, seconds: float) -> None:
        self._cycles.observe(seconds)

    def observe_binding(self, bound: bool, seconds: float) -> None:
        (self._bound if bound else self._binding_failed).inc()
        self._binding_time.observe(seconds)

    def count_eviction(self, reason: str) -> None:
        self._evictions.labels(reason).inc()
        if reason == _PREEMPTED:
            self._kgwe.preemptions.inc()

    def count_migration(self, outcome: str) -> None:
        self._migrations.labels(outcome).inc()

    def count_mig_rebalance(self, outcome: str) -> None:
        self._mig_rebalances.labels(outcome).inc()

    def count_error(self, part: str) -> None:
        self._errors.labels(part).inc()

    def observe_time_to_place(self, seconds: float) -> None:
        self._time_to_place.observe(max(0.0, seconds))


class _KgweMetrics:
    """What KGWE's exporter reports of its scheduler, under its names."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._latency = Histogram(
            "kgwe_scheduling_latency_ms",
            "Duration of the scheduling of one gang, in milliseconds.",
            registry=registry,
            buckets=_KGWE_LATENCY,
        )
        self._attempts, self._successes, self._failures, self.preemptions = (
            Counter(f"kgwe_{name}", text, registry=registry)
            for name, text in (
                ("scheduling_attempts", "Attempts to schedule a gang."),
                ("scheduling_successes", "Attempts that placed a gang."),
                ("scheduling_failures", "Attempts that did not place a gang."),
                ("preemptions", "Pods evicted for the sake of others."),
            )
        )

    def observe_decision(self, placed: bool, seconds: float) -> None:
        self._latency.observe(1000 * seconds)
        self._attempts.inc()
        (self._successes if placed else self._failures).inc()
