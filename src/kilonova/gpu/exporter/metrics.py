"""Metrics and their samples."""

from collections.abc import Mapping
from typing import Literal

import msgspec

Kind = Literal["gauge", "counter", "unknown"]
Labels = Mapping[str, str]


class MetricInfo(msgspec.Struct, frozen=True, cache_hash=True):
    """A metric. Names of counters are without `_total`, which the exposition adds.

    DCGM's exporter has counters without `_total`, which the formats do not allow: here their kind
    is unknown. Prometheus does not look at it.
    """

    name: str
    kind: Kind
    help: str


class Sample(msgspec.Struct, frozen=True, gc=False):
    """A value of a metric, with its labels."""

    metric: MetricInfo
    labels: Labels
    value: float


def gauge(name: str, help: str) -> MetricInfo:
    """A value that goes up and down."""
    return MetricInfo(name, "gauge", help)


def counter(name: str, help: str) -> MetricInfo:
    """A value that only grows, `name` without `_total`."""
    return MetricInfo(name, "counter", help)
