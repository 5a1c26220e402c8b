"""Creates Prometheus metrics for hot paths: the lookup of a metric's labels is cached."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

M = TypeVar("M", Counter, Gauge, Histogram)

DURATION_BUCKETS = (
    0.0002,
    0.001,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
)
"""Seconds of requests and reconciles."""


class MetricFactory:
    """Creates metrics in a registry.

    Each method returns a function from the values of the labels to the metric of these. Only labels
    with few values belong here: no series is ever removed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def counter(self, name: str, text: str, *labels: str) -> Callable[..., Counter]:
        """A metric that only grows; its name ends with `_total`."""
        return _bind_labels(Counter(name, text, labels, registry=self._registry), labels)

    def gauge(self, name: str, text: str, *labels: str) -> Callable[..., Gauge]:
        """A metric that goes up and down."""
        return _bind_labels(Gauge(name, text, labels, registry=self._registry), labels)

    def histogram(
        self, name: str, text: str, *labels: str, buckets: Sequence[float] = DURATION_BUCKETS
    ) -> Callable[..., Histogram]:
        """A distribution, of seconds unless `buckets` are given."""
        metric = Histogram(name, text, labels, registry=self._registry, buckets=buckets)
        return _bind_labels(metric, labels)


def _bind_labels(metric: M, labels: Sequence[str]) -> Callable[..., M]:
    """The metric by the values of its labels, each combination built once; without labels the
    metric itself, which prometheus_client does not find by `labels()`."""
    return lru_cache(maxsize=None)(metric.labels) if labels else lambda: metric
