"""The figures of a service at one time. Plain values; what is not known is None, never 0."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kilonova.serving.signals.readings.histogram import Histogram
from kilonova.serving.signals.readings.reading import Measure


@dataclass(frozen=True, slots=True)
class LatencyQuantiles:
    """Quantiles over the last seconds, in seconds; None without requests, or without buckets."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


@dataclass(frozen=True, slots=True)
class GroupSignals:
    """The figures of a group of servers, of all gateways and servers together."""

    in_flight: int | None = None
    """Requests that gateways have sent to servers, without an answer yet."""
    pending: int | None = None
    """Requests that wait in gateways for a server that may take them."""
    queued: int | None = None
    """Requests in the queues of servers; they are in flight, too."""
    held: int = 0
    """Requests that arrived when there was no server."""
    arrivals_per_second: float | None = None
    """Requests that gateways sent to servers."""
    requests_per_second: float | None = None
    """Requests that were answered."""
    errors_per_second: float | None = None
    """Answers 5xx, or gRPC statuses that mean the same."""
    rejected_per_second: float | None = None
    """Requests refused by a limit."""
    tokens_per_second: float | None = None
    """Completion tokens, of LLM servers."""
    latency: LatencyQuantiles = LatencyQuantiles()
    """At the gateway, from request to the end of the response."""
    queue_time: LatencyQuantiles = LatencyQuantiles()
    compute_time: LatencyQuantiles = LatencyQuantiles()
    time_to_first_token: LatencyQuantiles = LatencyQuantiles()
    inter_token_latency: LatencyQuantiles = LatencyQuantiles()
    mean_latency: float | None = None
    """Seconds, as are all times."""
    mean_queue_time: float | None = None
    mean_compute_time: float | None = None
    distributions: Mapping[Measure, Histogram] = field(default_factory=dict[Measure, Histogram])
    """What the quantiles are computed from."""

    @property
    def demand(self) -> int | None:
        """Requests in flight, pending and held; None if no gateway reports."""
        if self.in_flight is None:
            return None if not self.held else self.held
        return self.in_flight + (self.pending or 0) + self.held


@dataclass(frozen=True, slots=True)
class ServiceSignals:
    """The figures of all groups, and when they were collected."""

    at: float
    """On the monotonic clock."""
    groups: dict[str, GroupSignals] = field(default_factory=dict[str, GroupSignals])
    problems: tuple[str, ...] = ()
    """What could not be read: `gateway web-gateway-x7k: connection refused`."""
    is_complete: bool = True
    """Whether all gateways were read; otherwise there may be more requests than are counted."""
    queries: Mapping[str, float] = field(default_factory=dict[str, float])
    """The values of `autoscaling.metric`, by group: the sum of the expression's values. One without
    a value is left out."""
    load_query: float | None = None
    """The value of the expression of `limits.load`: the greatest."""
