"""Topologies: levels of domains, and constraints that refer to them."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from kilonova.api.meta import Condition, Metadata
from kilonova.api.validation_rules import ValidationRule

TopologyDomain = Annotated[str, Meta(min_length=1, max_length=63, pattern="^[a-z][a-z0-9-]*$")]


class TopologyPackConstraint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Packs pods into one domain."""

    RULES: ClassVar = (
        ValidationRule(
            "has(self.required) || has(self.preferred)",
            "pack must specify at least one of required or preferred",
        ),
    )

    required: TopologyDomain | None = None
    """Required: all pods in one domain of this level."""
    preferred: TopologyDomain | None = None
    """Preferred: pods in as few domains of this level as possible."""


class ReplicaSpread(msgspec.Struct, frozen=True, gc=False):
    """Spreads replicas over domains."""

    domain: TopologyDomain
    """The level whose domains they are spread over."""
    required: bool = False
    """Require different domains for all replicas, instead of spreading them as evenly as
    possible."""


_SINGLE_REQUIRED_DOMAIN = ValidationRule(
    "!has(self.packDomain) || !self.?pack.?required.hasValue()",
    "topologyConstraint must not set both pack.required and deprecated packDomain",
)


class TopologyConstraint(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Where pods are placed relative to each other, by the levels of one topology."""

    RULES: ClassVar = (
        ValidationRule(
            "has(self.pack) || has(self.packDomain)",
            "topologyConstraint must specify pack or deprecated packDomain",
        ),
        _SINGLE_REQUIRED_DOMAIN,
    )

    topology_name: str = ""
    """The name of the ClusterTopologyBinding. Defaults to that of the enclosing constraint."""
    pack: TopologyPackConstraint | None = None
    """Packs the pods into one domain."""
    pack_domain: TopologyDomain | None = None
    """Deprecated: use pack.required."""


class SetTopologyConstraint(TopologyConstraint, frozen=True, gc=False, omit_defaults=True):
    """Where the pods of each replica of a set are placed, and the replicas relative to each
    other."""

    RULES: ClassVar = (
        ValidationRule(
            "has(self.pack) || has(self.packDomain) || has(self.spread)",
            "topologyConstraint must specify pack or deprecated packDomain, or spread",
        ),
        _SINGLE_REQUIRED_DOMAIN,
    )

    spread: ReplicaSpread | None = None
    """Spreads the replicas of the set over domains."""


class TopologyLevel(msgspec.Struct, frozen=True, gc=False):
    """A level of a topology."""

    domain: TopologyDomain
    """The name that constraints refer to; usually region, zone, datacenter, block, rack, host or
    numa."""
    key: Annotated[str, Meta(min_length=1, max_length=63)]
    """The key of the node label whose values are the domains."""


class SchedulerTopology(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A scheduler's own topology object, which should have the same levels."""

    scheduler_name: str
    """The scheduler."""
    topology_reference: str
    """The name of the scheduler's topology object."""


class ClusterTopologyBindingSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The levels of a cluster, as node labels define them."""

    levels: Annotated[tuple[TopologyLevel, ...], Meta(min_length=1)]
    """The levels, broadest first."""
    scheduler_topology_bindings: tuple[SchedulerTopology, ...] = ()


class SchedulerTopologyStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Whether a scheduler's topology object has the same levels."""

    scheduler_name: str
    """The scheduler."""
    topology_reference: str
    """The name of the scheduler's topology object."""
    in_sync: bool
    """Whether it has the same levels."""
    scheduler_backend_topology_observed_generation: int | None = None
    """The generation of the scheduler's topology object that was compared."""
    message: str = ""
    """The difference, if there is one."""


class ClusterTopologyBindingStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The observed state of a topology."""

    observed_generation: int | None = None
    """The generation that this status describes."""
    conditions: tuple[Condition, ...] = ()
    scheduler_topology_statuses: tuple[SchedulerTopologyStatus, ...] = ()


class ClusterTopologyBinding(msgspec.Struct, gc=False):
    """Names for the levels of a cluster's topology."""

    metadata: Metadata
    spec: ClusterTopologyBindingSpec
    status: ClusterTopologyBindingStatus = ClusterTopologyBindingStatus()
