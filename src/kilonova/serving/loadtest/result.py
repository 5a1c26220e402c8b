"""What a run shows. Times are milliseconds unless a field specifies otherwise."""

import msgspec


class Quantiles(msgspec.Struct, frozen=True):
    """Of latencies, in milliseconds: each is one that was measured, none is interpolated."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


class PercentilePoint(msgspec.Struct, frozen=True):
    """A point of the distribution of latencies."""

    percentile: float
    latency: float


class FailureCount(msgspec.Struct, frozen=True):
    """Requests that failed in the same way."""

    status: str
    count: int
    messages: list[str]
    """The first different ones."""


class Attainment(msgspec.Struct, frozen=True, rename="camel"):
    """How many of all requests meet an objective, in percent; failed ones do not."""

    objective: str
    bound: float
    percent: float


class StepResult(msgspec.Struct, frozen=True, rename="camel"):
    """A phase of the profile, by the requests that began in it."""

    level: str
    seconds: float
    requests: int
    failed: int
    throughput: float
    latency: Quantiles | None


class Bucket(msgspec.Struct, frozen=True):
    """A part of the timeline, by the requests that began in it."""

    at: float
    """Seconds after the start."""
    seconds: float
    """How long it is."""
    requests: int
    failed: int
    p50: float | None
    p99: float | None


class LoadResult(msgspec.Struct, frozen=True, rename="camel", kw_only=True, omit_defaults=True):
    """The figures of a run. Those of latency are of the requests that succeeded."""

    target: str
    protocol: str
    model: str = ""
    load: str
    """closed, constant, poisson, trace."""
    seconds: float
    """Of the part that is measured, without warm-up."""
    requests: int
    succeeded: int
    failed: int
    warm_up_requests: int = 0
    throughput: float
    """Requests that succeeded, per second."""
    latency: Quantiles | None = None
    distribution: list[PercentilePoint] = []
    service_time: Quantiles | None = None
    """In an open loop: from when a request was sent, not from when it was due."""
    time_to_first_token: Quantiles | None = None
    inter_token_latency: Quantiles | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    tokens_per_second: float = 0.0
    failures: list[FailureCount] = []
    attainment: float | None = None
    """Requests that meet all objectives, in percent."""
    objectives: list[Attainment] = []
    steps: list[StepResult] = []
    timeline: list[Bucket] = []
    notes: list[str] = []
