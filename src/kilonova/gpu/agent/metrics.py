"""The metrics of node agents."""

from prometheus_client import CollectorRegistry, Counter, Histogram


class AgentMetrics:
    """Counts what agents find and do; of all nodes of the process together."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.errors = Counter(
            "kilonova_gpu_errors",
            "Errors of the driver, by operation and kind.",
            ("operation", "kind"),
            registry=registry,
        )
        self.findings = Counter(
            "kilonova_gpu_findings",
            "What was found of the health of devices, by the reason of the event.",
            ("reason",),
            registry=registry,
        )
        self.evictions = Counter(
            "kilonova_gpu_evictions",
            "Pods evicted from unhealthy devices: evicted, refused (by a disruption budget).",
            ("result",),
            registry=registry,
        )
        self.mismatches = Counter(
            "kilonova_gpu_device_mismatches",
            "Pods found on other devices than the scheduler assigned.",
            registry=registry,
        )
        self.node_writes = Counter(
            "kilonova_gpu_node_writes", "Patches of Nodes.", registry=registry
        )
        self.mig_seconds = Histogram(
            "kilonova_gpu_mig_change_seconds",
            "Time to bring the MIG instances of a node to the desired state.",
            buckets=(0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120),
            registry=registry,
        )
