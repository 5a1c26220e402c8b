"""The figures of a service at one time. Plain values; what is not known is None, never 0."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LatencyQuantiles:
    """Quantiles over the last interval, in seconds; None without requests."""

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
    """Requests in the queues of servers."""
    held: int = 0
    """Requests that arrived when there was no server."""
    requests_per_second: float | None = None
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
    """Seconds, over the last interval."""

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
