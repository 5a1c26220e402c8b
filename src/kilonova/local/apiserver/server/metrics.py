"""Metrics of the API server: requests by method and code, and the state of the storage."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector


class ServerMetrics:
    """Uses its own registry, so that several clusters in a process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._components: dict[str, CollectorRegistry] = {}
        self._requests = Counter(
            "apiserver_request",
            "Requests handled.",
            ["verb", "code"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "apiserver_request_duration_seconds",
            "Time from a request's arrival to its response, without watches.",
            ["verb"],
            registry=self.registry,
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
        )
        self._request_counters: dict[tuple[str, int], Counter] = {}
        self._request_timers: dict[str, Histogram] = {}

    def record_request(self, verb: str, code: int, seconds: float | None) -> None:
        """Count one response."""
        key = (verb, code)
        counter = self._request_counters.get(key)
        if counter is None:
            counter = self._request_counters[key] = self._requests.labels(verb, str(code))
        counter.inc()
        if seconds is not None:
            timer = self._request_timers.get(verb)
            if timer is None:
                timer = self._request_timers[verb] = self._seconds.labels(verb)
            timer.observe(seconds)

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Register a gauge whose value is read at collection."""
        Gauge(name, text, registry=self.registry).set_function(value)

    def counter(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Register a counter that is counted elsewhere and read at collection."""
        self.registry.register(_CallbackCounter(name, text, value))

    def component_registry(self, component: str) -> CollectorRegistry:
        """A new registry for a component; it replaces that of its previous run."""
        registry = self._components[component] = CollectorRegistry()
        return registry

    def render(self) -> bytes:
        return b"".join(map(generate_latest, (self.registry, *self._components.values())))


class _CallbackCounter(Collector):
    def __init__(self, name: str, text: str, value: Callable[[], float]) -> None:
        self._name, self._text, self._value = name, text, value

    def collect(self) -> Iterator[Metric]:
        yield CounterMetricFamily(self._name, self._text, self._value())
