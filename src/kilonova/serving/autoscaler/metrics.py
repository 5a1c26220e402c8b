"""Prometheus metrics of the autoscaler. The series of a group end with it."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from kilonova.kube import Key

IN_FLIGHT_METRIC = "kilonova_serving_requests_in_flight"
HELD_METRIC = "kilonova_serving_requests_held"
"""By these two KEDA and a HorizontalPodAutoscaler scale by demand."""

_LABELS = ("namespace", "service", "server")


class AutoscalerMetrics:
    """The metrics, in a registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = CollectorRegistry() if registry is None else registry
        self._known: dict[Key, set[str]] = {}
        self._gauges = {
            "desired": Gauge(
                "kilonova_serving_desired_replicas",
                "Servers that a group is to have, by the autoscaler.",
                _LABELS,
                registry=registry,
            ),
            "ready": Gauge(
                "kilonova_serving_ready_replicas",
                "Servers of a group that get requests.",
                _LABELS,
                registry=registry,
            ),
            "in_flight": Gauge(
                IN_FLIGHT_METRIC,
                "Requests that servers of a group work on or that wait for one.",
                _LABELS,
                registry=registry,
            ),
            "held": Gauge(
                HELD_METRIC,
                "Requests that are held until a group has a server.",
                _LABELS,
                registry=registry,
            ),
        }
        self._changes = Counter(
            "kilonova_serving_scalings",
            "Changes of the number of servers by the autoscaler.",
            ["direction"],
            registry=registry,
        )
        for direction in ("up", "down", "zero"):
            self._changes.labels(direction)

    def set_group(
        self, key: Key, group: str, *, desired: int, ready: int, in_flight: int | None, held: int
    ) -> None:
        """Set the figures of a group; one that is unknown has no series."""
        self._known.setdefault(key, set()).add(group)
        values = {"desired": desired, "ready": ready, "in_flight": in_flight, "held": held}
        for name, value in values.items():
            if value is not None:
                self._gauges[name].labels(*key, group).set(value)
            else:
                self._remove(name, key, group)

    def count_change(self, old: int, new: int) -> None:
        """Count a change of the number of servers."""
        self._changes.labels("up" if new > old else "down" if new else "zero").inc()

    def keep_groups(self, key: Key, groups: frozenset[str]) -> None:
        """Remove the series of other groups of a service."""
        known = self._known.pop(key, set())
        for gone in known - groups:
            for name in self._gauges:
                self._remove(name, key, gone)
        if known & groups:
            self._known[key] = known & groups

    def _remove(self, name: str, key: Key, group: str) -> None:
        # prometheus_client raises for a series that was never set.
        gauge = self._gauges[name]
        gauge.labels(*key, group)
        gauge.remove(*key, group)
