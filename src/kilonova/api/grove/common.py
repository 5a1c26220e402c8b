"""Types shared by the objects of `grove.io`."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kilonova.api.times import Time

PodSpec = Annotated[dict[str, Any], Meta(extra={"kubernetes": "io.k8s.api.core.v1.PodSpec"})]
"""A pod template as the user writes it; passed on unchanged."""

MetricSpecs = Annotated[
    tuple[dict[str, Any], ...],
    Meta(extra={"kubernetes items": "io.k8s.api.autoscaling.v2.MetricSpec", "list": "atomic"}),
]
ClaimSpec = Annotated[
    dict[str, Any], Meta(extra={"kubernetes": "io.k8s.api.resource.v1.ResourceClaimTemplateSpec"})
]
IntOrPercent = Annotated[int | str, Meta(extra={"int or string": True})]
Duration = Annotated[str, Meta(extra={"duration": True})]
"""A duration, such as `4h` or `1m30s`."""
Int32 = Annotated[int, Meta(extra={"format": "int32"})]
CountOrZero = Annotated[int, Meta(extra={"format": "int32", "default": 0})]
"""A count that is written whenever there is a status."""
RequiredCountOrZero = Annotated[CountOrZero, Meta(extra={"required": True})]
NonNegativeInt = Annotated[int, Meta(ge=0, extra={"format": "int32"})]
"""A count that users set."""
MAX_REPLICAS = 100_000
"""The maximum of any count: no set may have more pods. Enforced only by the API, for /scale too: an
object that exceeds it must still be decoded, so that it can be reported."""
Replicas = Annotated[NonNegativeInt, Meta(extra={"maximum": MAX_REPLICAS})]
ReplicasOrOne = Annotated[Replicas, Meta(extra={"default": 1})]
"""Defaults to 1."""
RequiredReplicasOrOne = Annotated[ReplicasOrOne, Meta(extra={"required": True})]

Scope = Literal["AllReplicas", "PerReplica"]


class LastError(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An error that has not been resolved yet."""

    code: str
    """The operation that failed."""
    description: str
    """The error message."""
    observed_at: Time
    """When the error was first observed."""


class AutoScaling(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A HorizontalPodAutoscaler that the operator manages."""

    max_replicas: Int32
    """The maximum number of replicas."""
    min_replicas: Int32 | None = None
    """The minimum number of replicas. Defaults to the initial number of replicas."""
    metrics: MetricSpecs = ()
    """The metrics to scale by, as in a HorizontalPodAutoscaler."""


class RollingUpdate(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How fast outdated replicas are replaced."""

    max_unavailable: IntOrPercent | None = None
    """How many replicas may be unavailable during the update. Defaults to 1."""
    max_surge: IntOrPercent | None = None
    """How many replicas may exist in addition to the desired number. Defaults to 0."""
    progress_deadline: Duration | None = None
    """After this time without progress the update is reported as stuck."""
