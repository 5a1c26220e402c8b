"""`fleet.kilonova.dev/v1alpha1`: the clusters of a fleet.

A **Cluster** is a member: a cluster whose agent reads what it is to run from the fleet's store, and
reports there what it runs. The manager needs no access to it.
"""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import Time
from kilonova.api.validation_rules import ValidationRule

GROUP = "fleet.kilonova.dev"
VERSION = "v1alpha1"

CONSOLE = "fleet.kilonova.dev/console"
"""Annotation of a Cluster: the address of its web console."""

ClusterHealth = Literal["Unknown", "Healthy", "Suspect", "Lost"]


class SecretReference(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A key of a Secret."""

    namespace: str
    """The namespace of the Secret."""
    name: str
    """The name of the Secret."""
    key: Annotated[str, Meta(extra={"default": "kubeconfig"})] = "kubeconfig"
    """The key in its data."""


class ClusterSpec(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A member of the fleet."""

    RULES: ClassVar = (
        ValidationRule(
            "!has(self.weight) || self.weight >= 0",
            "weight must not be negative",
            field_path=".weight",
        ),
    )

    region: Annotated[str, Meta(max_length=253)] = ""
    """Where the cluster is; instances are spread over regions."""
    weight: Annotated[int, Meta(ge=0, le=1_000_000, extra={"format": "int32", "default": 100})] = (
        100
    )
    """How much the cluster is preferred, relative to others."""
    cost: Annotated[float, Meta(ge=0, extra={"format": "double"})] | None = None
    """The relative cost of an instance there; of clusters that are equal otherwise, the cheaper is
    preferred."""
    cordoned: Annotated[bool, Meta(extra={"default": False})] = False
    """Whether it gets no further instances."""
    evacuated: Annotated[bool, Meta(extra={"default": False})] = False
    """Whether its instances are moved to other clusters."""
    kubeconfig_secret_ref: SecretReference | None = None
    """The kubeconfig for people and for `kilonova fleet`; the manager does not use it."""


class AcceleratorCount(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Accelerators of one kind."""

    resource: str
    """The name of the resource."""
    total: int = 0
    """The number in the cluster."""
    free: int = 0
    """The number that no pod uses, on nodes that take pods."""


class ClusterStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What was last observed of a member."""

    observed_generation: int | None = None
    """The generation that this status describes."""
    health: Annotated[ClusterHealth, Meta(extra={"default": "Unknown"})] = "Unknown"
    """Suspect while it does not report, Lost when its instances are placed elsewhere."""
    reason: str = ""
    """Why it is not healthy: Network, Authentication, Configuration, Api."""
    last_seen: Time | None = None
    """When it last reported."""
    suspect_since: Time | None = None
    """Since when it has not reported."""
    healthy_since: Time | None = None
    """Since when it has reported again."""
    sequence: int | None = None
    """The number of its last report."""
    losses: Annotated[int, Meta(extra={"format": "int32", "default": 0})] = 0
    """How often it was lost lately: it must be reachable the longer before it gets instances
    back."""
    nodes: Annotated[int, Meta(extra={"format": "int32"})] | None = None
    """The number of its nodes."""
    accelerators: tuple[AcceleratorCount, ...] = ()
    """Its accelerators."""
    instances: Annotated[int, Meta(extra={"format": "int32", "default": 0})] = 0
    """The number of its instances."""
    ready_instances: Annotated[int, Meta(extra={"format": "int32", "default": 0})] = 0
    """The number of ready ones."""
    epoch: int | None = None
    """The fencing epoch that it last accepted."""
    conditions: tuple[Condition, ...] = ()
    """Reachable, Schedulable."""


class Cluster(msgspec.Struct, gc=False):
    """A member of the fleet."""

    metadata: Metadata
    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus = ClusterStatus()
