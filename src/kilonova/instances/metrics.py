"""Prometheus metrics of instances.

Counters start at 0 with the process; the series of an instance end with it.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kilonova.kube import Key

_ALLOCATION_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)


class InstanceMetrics:
    """The metrics, in a registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = CollectorRegistry() if registry is None else registry
        self._known: set[Key] = set()
        instance = ["namespace", "instance"]
        self._ready = Gauge(
            "kilonova_instance_agents_ready",
            "Agents of an InferenceEngineInstance that are ready.",
            instance,
            registry=registry,
        )
        self._pending = Gauge(
            "kilonova_instance_agents_pending",
            "Agents of an InferenceEngineInstance that are not ready.",
            instance,
            registry=registry,
        )
        self._allocations = Counter(
            "kilonova_instance_allocations",
            "Allocations of InferenceEngineInstances by result: allocated, or failed for lack of "
            "capacity.",
            ["result"],
            registry=registry,
        )
        self._allocation_seconds = Histogram(
            "kilonova_instance_allocation_seconds",
            "From the creation of an allocation's PodGang until all its pods have a node.",
            registry=registry,
            buckets=_ALLOCATION_BUCKETS,
        )
        self._repairs = Counter(
            "kilonova_instance_repairs",
            "Steps of repairs by rung: agents recreated, agents that left their node, relocations "
            "begun, allocations given up.",
            ["rung"],
            registry=registry,
        )
        self._relocations = Counter(
            "kilonova_instance_relocations",
            "Instances that were relocated within the cluster.",
            registry=registry,
        )
        for result in ("allocated", "failed"):
            self._allocations.labels(result)

    def set_agents(self, instance: Key, ready: int, pending: int) -> None:
        """Set the numbers of an instance's agents."""
        self._known.add(instance)
        self._ready.labels(*instance).set(ready)
        self._pending.labels(*instance).set(pending)

    def forget(self, instance: Key) -> None:
        """Remove the series of an instance that was deleted."""
        if instance in self._known:
            self._known.remove(instance)
            for gauge in (self._ready, self._pending):
                gauge.remove(*instance)

    def count_repair(self, rung: str, number: int) -> None:
        """Count steps of a repair."""
        self._repairs.labels(rung).inc(number)

    def count_allocation(self, seconds: float) -> None:
        """Count an allocation that got its nodes."""
        self._allocations.labels("allocated").inc()
        self._allocation_seconds.observe(max(0.0, seconds))

    def count_failed_allocation(self) -> None:
        """Count an allocation that was given up."""
        self._allocations.labels("failed").inc()

    def count_relocation(self) -> None:
        """Count a relocation that is complete."""
        self._relocations.inc()
