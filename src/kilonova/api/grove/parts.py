"""What the objects of `grove.io` have in common."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from kilonova.api.times import Time

PodSpec = Annotated[dict[str, Any], Meta(extra={"kubernetes": "io.k8s.api.core.v1.PodSpec"})]
"""A pod as people write it; passed on as it is."""

MetricSpecs = Annotated[
    tuple[dict[str, Any], ...],
    Meta(extra={"kubernetes items": "io.k8s.api.autoscaling.v2.MetricSpec", "list": "atomic"}),
]
ClaimSpec = Annotated[
    dict[str, Any], Meta(extra={"kubernetes": "io.k8s.api.resource.v1.ResourceClaimTemplateSpec"})
]
IntOrPercent = Annotated[int | str, Meta(extra={"int or string": True})]
Duration = Annotated[str, Meta(extra={"duration": True})]
"""As `4h`, `1m30s`."""
Count = Annotated[int, Meta(extra={"format": "int32"})]
Counted = Annotated[int, Meta(extra={"format": "int32", "default": 0})]
"""A count that is shown as soon as there is a status."""
RequiredCount = Annotated[Counted, Meta(extra={"required": True})]
Natural = Annotated[int, Meta(ge=0, extra={"format": "int32"})]
"""A count that people choose."""
MOST_REPLICAS = 100_000
"""Of anything: no set may have more pods. Said to the API alone, which also asks it of /scale: what
has come past it must still be read, to be told of."""
Replicas = Annotated[Natural, Meta(extra={"maximum": MOST_REPLICAS})]
One = Annotated[Replicas, Meta(extra={"default": 1})]
"""1 where it is not said."""
RequiredOne = Annotated[One, Meta(extra={"required": True})]

Scope = Literal["AllReplicas", "PerReplica"]


class LastError(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Something that went wrong and has not gone well since."""

    code: str
    """What was being done."""
    description: str
    """What went wrong."""
    observed_at: Time
    """When it first went wrong."""


class AutoScaling(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A HorizontalPodAutoscaler that the operator keeps."""

    max_replicas: Count
    """Never more replicas than this."""
    min_replicas: Count | None = None
    """The replicas that are asked for, where it is not said."""
    metrics: MetricSpecs = ()
    """What to scale by, as in a HorizontalPodAutoscaler."""


class RollingUpdate(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How fast outdated replicas are replaced."""

    max_unavailable: IntOrPercent | None = None
    """So many may be missing at a time because of the update; 1 where it is not said."""
    max_surge: IntOrPercent | None = None
    """So many may be there beyond the replicas; 0 where it is not said."""
    progress_deadline: Duration | None = None
    """After so long without progress the update is said to be stuck."""
