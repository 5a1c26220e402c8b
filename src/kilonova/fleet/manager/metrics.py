"""Metrics of the manager."""

from collections import Counter as Counts
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric

from kilonova.fleet.planning import FleetPlan
from kilonova.kube.observability.metric_factory import DURATION_BUCKETS

_HEALTH = ("Unknown", "Healthy", "Suspect", "Lost")


class FleetMetrics:
    """Counts passes and leaders; the last plan is counted when the metrics are scraped."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._changes = Counter(
            "kilonova_fleet_leader_changes_total",
            "How often this manager began or ceased to lead",
            registry=registry,
        )
        self._leading = Gauge(
            "kilonova_fleet_leader", "1 while this manager leads, else 0", registry=registry
        )
        self._seconds = Histogram(
            "kilonova_fleet_pass_seconds",
            "Duration of a pass",
            registry=registry,
            buckets=DURATION_BUCKETS,
        )
        self._moved = Counter(
            "kilonova_fleet_relocations_total",
            "Instances that were placed in another cluster",
            registry=registry,
        )
        self._plan: FleetPlan | None = None
        registry.register(self)

    def record_leadership(self, leading: bool) -> None:
        """The callback of the election."""
        self._changes.inc()
        self._leading.set(1 if leading else 0)
        if not leading:
            self._plan = None

    def record_pass(self, plan: FleetPlan, seconds: float, relocated: int) -> None:
        """Record a pass, and how many instances it relocated."""
        self._plan = plan
        self._seconds.observe(seconds)
        self._moved.inc(relocated)

    def collect(self) -> Iterator[Metric]:
        """The state of the fleet by the last pass; of a manager that does not lead, nothing."""
        clusters = GaugeMetricFamily(
            "kilonova_fleet_clusters", "Member clusters by health", labels=["health"]
        )
        reachable = GaugeMetricFamily(
            "kilonova_fleet_clusters_reachable", "Member clusters that report"
        )
        frozen = GaugeMetricFamily(
            "kilonova_fleet_frozen", "1 while half of the clusters are unreachable at once"
        )
        replicas = GaugeMetricFamily(
            "kilonova_fleet_replicas",
            "Instances by deployment and cluster: desired, observed, ready",
            labels=["namespace", "deployment", "cluster", "state"],
        )
        plan = self._plan
        if plan is not None:
            health = Counts(each.health for each in plan.clusters.values())
            for each in _HEALTH:
                clusters.add_metric([each], health[each])
            reachable.add_metric([], health["Healthy"])
            frozen.add_metric([], 1 if plan.frozen else 0)
            for (namespace, name), status in plan.deployments.items():
                for cell in status.clusters:
                    counts = (
                        ("desired", cell.desired),
                        ("observed", cell.observed),
                        ("ready", cell.ready),
                    )
                    for state, count in counts:
                        replicas.add_metric([namespace, name, cell.cluster, state], count)
        yield from (clusters, reachable, frozen, replicas)
