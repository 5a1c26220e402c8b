"""What a gateway reports: Envoy's statistics, in Prometheus' text format. Pure."""

from collections import defaultdict
from urllib.parse import quote

from kilonova.serving.gateway.stat_names import build_hold_cluster, build_server_cluster
from kilonova.serving.signals.readings.exposition import Sample, parse_samples
from kilonova.serving.signals.readings.reading import (
    Counter,
    Gauge,
    HistogramSamples,
    Reading,
    list_histogram_names,
)

_MILLISECONDS = 1e-3
_CLUSTER = "envoy_cluster_name"
_PREFIX = "envoy_cluster_"
_TIME = f"{_PREFIX}upstream_rq_time"
_TIME_SAMPLES = list_histogram_names(_TIME)
_CLASSES = f"{_PREFIX}upstream_rq_xx"
_GAUGES: dict[str, Gauge] = {
    f"{_PREFIX}upstream_rq_active": "in_flight",
    f"{_PREFIX}upstream_rq_pending_active": "pending",
}
_COUNTERS: dict[str, Counter] = {
    f"{_PREFIX}upstream_rq_total": "arrivals",
    f"{_PREFIX}upstream_rq_completed": "requests",
    f"{_PREFIX}upstream_rq_pending_overflow": "rejected",
    f"{_PREFIX}upstream_rq_active_overflow": "rejected",
}
_NAMES = (*_TIME_SAMPLES, _CLASSES, *_GAUGES, *_COUNTERS)

_FILTER = (
    r"^cluster\.(server|hold)/[^.]+\.upstream_rq_"
    r"(active|pending_active|total|completed|5xx|pending_overflow|active_overflow|time)$"
)
STATS_PATH = f"/stats/prometheus?filter={quote(_FILTER, safe='')}"
"""The statistics that are read, and no others: Envoy has hundreds for each cluster."""


def parse_gateway_stats(text: str, groups: tuple[str, ...]) -> dict[str, Reading]:
    """The figures of each group that the gateway knows."""
    server_clusters = {build_server_cluster(group): group for group in groups}
    hold_clusters = {build_hold_cluster(group): group for group in groups}
    builders: dict[str, _ReadingBuilder] = defaultdict(_ReadingBuilder)
    for sample in parse_samples(text, _NAMES):
        cluster = sample.labels.get(_CLUSTER, "")
        if cluster in server_clusters:
            builders[server_clusters[cluster]].put(sample)
        elif cluster in hold_clusters and _GAUGES.get(sample.name) == "in_flight":
            builders[hold_clusters[cluster]].gauges["held"] = sample.value
    return {group: builder.build() for group, builder in builders.items()}


class _ReadingBuilder:
    def __init__(self) -> None:
        self.gauges: dict[Gauge, float] = {}
        self._counters: dict[Counter, float] = {}
        self._latency = HistogramSamples()

    def put(self, sample: Sample) -> None:
        name = sample.name
        if name in _GAUGES:
            self.gauges[_GAUGES[name]] = sample.value
        elif name in _COUNTERS:
            self._count(_COUNTERS[name], sample.value)
        elif name in _TIME_SAMPLES:
            self._latency.put(sample)
        elif sample.labels.get("envoy_response_code_class") == "5":
            self._count("errors", sample.value)

    def _count(self, counter: Counter, value: float) -> None:
        self._counters[counter] = self._counters.get(counter, 0.0) + value

    def build(self) -> Reading:
        # Envoy has neither errors nor latencies before the first one: then there was none.
        self._counters.setdefault("errors", 0.0)
        latency = self._latency.build(_MILLISECONDS)
        return Reading(self.gauges, self._counters, {"latency": latency})
