"""How the number of servers follows the load."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.serving.common import Count, Duration, PositiveInt
from kilonova.api.validation_rules import ValidationRule

DEFAULT_IDLE_AFTER = "5m"
DEFAULT_HOLD_TIMEOUT = "10m"
DEFAULT_SCALE_DOWN_STABILIZATION = "60s"

ScalerKind = Literal["Builtin", "HorizontalPodAutoscaler", "ScaledObject"]


class DemandTarget(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Demand-proportional: requests in flight, queued and held, over the capacity of a server."""

    in_flight_per_replica: Annotated[PositiveInt, Meta(extra={"default": 8})] = 8
    """The requests that a server works on well at the same time."""
    utilization: Annotated[float, Meta(gt=0, le=1, extra={"format": "double", "default": 0.8})] = (
        0.8
    )
    """How much of that is used before another server is added."""


class MetricTarget(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The value of a PromQL expression per server."""

    query: Annotated[str, Meta(min_length=1, max_length=4096)]
    """The expression; the sum of its values is used."""
    threshold: Annotated[float, Meta(gt=0, extra={"format": "double"})]
    """The value at which the number of servers is right."""
    per_replica: Annotated[bool, Meta(extra={"default": True})] = True
    """Whether the value grows with the number of servers at the same load (a sum); false for an
    average, such as a latency."""
    prometheus: str = ""
    """The URL of Prometheus. Defaults to that of the installation."""


class SlaTarget(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Latencies at which another server is added."""

    RULES: ClassVar = (
        ValidationRule(
            "has(self.queue) || has(self.latency) || has(self.timeToFirstToken)"
            " || has(self.interTokenLatency)",
            "set at least one of queue, latency, timeToFirstToken and interTokenLatency",
        ),
    )

    queue: Duration | None = None
    """The time in the queue of a server."""
    latency: Duration | None = None
    """The time from request to response, measured at the gateway."""
    time_to_first_token: Duration | None = None
    """The time from request to the first token."""
    inter_token_latency: Duration | None = None
    """The time between two tokens."""
    percentile: Annotated[float, Meta(gt=0, lt=100, extra={"format": "double", "default": 95})] = 95
    """The percentile that is compared."""


class ScheduleEntry(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Bounds for some time."""

    start: Annotated[str, Meta(min_length=9, max_length=100)]
    """When it starts, in the form of cron: `0 8 * * 1-5`."""
    duration: Duration
    """How long it lasts."""
    min_replicas: Count | None = None
    """The minimum during this time."""
    max_replicas: Count | None = None
    """The maximum during this time."""
    time_zone: Annotated[str, Meta(extra={"default": "UTC"})] = "UTC"
    """The time zone of `start`, such as `Europe/Berlin`."""


class ScalingRate(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """How fast servers are added or removed."""

    stabilization: Duration | None = None
    """How long a lower (or higher) number must be wanted. Defaults to 0 up, and to 60s down."""
    max_replicas: PositiveInt | None = None
    """The servers that are added or removed at most in each period. Defaults to no limit."""
    period: Annotated[Duration, Meta(extra={"default": "60s"})] = "60s"
    """The period of `maxReplicas`."""


class ScaleToZero(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What happens without load, and to requests that arrive when there is no server."""

    idle_after: Annotated[Duration, Meta(extra={"default": DEFAULT_IDLE_AFTER})] = (
        DEFAULT_IDLE_AFTER
    )
    """How long there must be no request before the last server is removed."""
    hold_timeout: Annotated[Duration, Meta(extra={"default": DEFAULT_HOLD_TIMEOUT})] = (
        DEFAULT_HOLD_TIMEOUT
    )
    """How long a request is held until a server is ready; then it is refused as unavailable."""
    max_held: Annotated[PositiveInt, Meta(extra={"default": 1000})] = 1000
    """The requests that are held at most; further ones are refused as exhausted."""


class Autoscaling(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The bounds, and what decides between them: the highest number of all modes that are set.
    Without any mode, `demand` is used."""

    RULES: ClassVar = (
        ValidationRule(
            "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
            "minReplicas must not be greater than maxReplicas",
            field_path=".minReplicas",
        ),
    )

    max_replicas: PositiveInt
    """The greatest number of servers."""
    min_replicas: Annotated[Count, Meta(extra={"default": 1})] = 1
    """The least number of servers; 0 scales to zero."""
    scaler: Annotated[ScalerKind, Meta(extra={"default": "Builtin"})] = "Builtin"
    """Who decides: ours, a HorizontalPodAutoscaler, or a ScaledObject of KEDA; the objects of the
    latter two are created."""
    demand: DemandTarget | None = None
    metric: MetricTarget | None = None
    sla: SlaTarget | None = None
    schedule: Annotated[tuple[ScheduleEntry, ...], Meta(max_length=64)] = ()
    """Bounds by time of day."""
    scale_up: ScalingRate = ScalingRate()
    scale_down: ScalingRate = ScalingRate()
    scale_to_zero: ScaleToZero = ScaleToZero()
    startup_time: Duration | None = None
    """How long a server takes to become ready, until that has been measured."""


__all__ = [
    "DEFAULT_HOLD_TIMEOUT",
    "DEFAULT_IDLE_AFTER",
    "DEFAULT_SCALE_DOWN_STABILIZATION",
    "Autoscaling",
    "DemandTarget",
    "MetricTarget",
    "ScaleToZero",
    "ScalerKind",
    "ScalingRate",
    "ScheduleEntry",
    "SlaTarget",
]
