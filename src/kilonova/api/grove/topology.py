"""Topologies: levels of domains, and constraints that name them."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from kilonova.api.meta import Condition, Metadata
from kilonova.api.rules import Rule

Domain = Annotated[str, Meta(min_length=1, max_length=63, pattern="^[a-z][a-z0-9-]*$")]


class Pack(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Pods stand within one domain."""

    RULES: ClassVar = (
        Rule(
            "has(self.required) || has(self.preferred)",
            "pack must specify at least one of required or preferred",
        ),
    )

    required: Domain | None = None
    """All in one domain of this level, or not at all."""
    preferred: Domain | None = None
    """In as few domains of this level as can be."""


class Apart(msgspec.Struct, frozen=True, gc=False):
    """Replicas stand in different domains."""

    domain: Domain
    """The level whose domains they are spread over."""
    required: bool = False
    """No two in one domain, instead of as evenly as can be."""


_ONE_REQUIREMENT = Rule(
    "!has(self.packDomain) || !self.?pack.?required.hasValue()",
    "topologyConstraint must not set both pack.required and deprecated packDomain",
)


class TopologyConstraint(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Where pods stand relative to each other, in the levels of one topology."""

    RULES: ClassVar = (
        Rule(
            "has(self.pack) || has(self.packDomain)",
            "topologyConstraint must specify pack or deprecated packDomain",
        ),
        _ONE_REQUIREMENT,
    )

    topology_name: str = ""
    """Name of the ClusterTopologyBinding; inherited from what this is part of."""
    pack: Pack | None = None
    """Keeps the pods together."""
    pack_domain: Domain | None = None
    """Deprecated: use pack.required."""


class SetTopologyConstraint(TopologyConstraint, frozen=True, gc=False, omit_defaults=True):
    """Where the pods of each replica of a set stand, and the replicas among each other."""

    RULES: ClassVar = (
        Rule(
            "has(self.pack) || has(self.packDomain) || has(self.spread)",
            "topologyConstraint must specify pack or deprecated packDomain, or spread",
        ),
        _ONE_REQUIREMENT,
    )

    spread: Apart | None = None
    """Keeps the replicas of the set apart."""


class Level(msgspec.Struct, frozen=True, gc=False):
    """A level of a topology."""

    domain: Domain
    """What constraints call it; usually region, zone, datacenter, block, rack, host or numa."""
    key: Annotated[str, Meta(min_length=1, max_length=63)]
    """Key of the node label whose values are the domains."""


class SchedulerTopology(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A topology that a scheduler has of its own, which should say the same."""

    scheduler_name: str
    """The scheduler."""
    topology_reference: str
    """Name of its own topology object."""


class ClusterTopologyBindingSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The levels of a cluster, as node labels tell them."""

    levels: Annotated[tuple[Level, ...], Meta(min_length=1)]
    """Broadest first."""
    scheduler_topology_bindings: tuple[SchedulerTopology, ...] = ()


class SchedulerTopologyStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Whether a scheduler's own topology says the same."""

    scheduler_name: str
    """The scheduler."""
    topology_reference: str
    """Name of its own topology object."""
    in_sync: bool
    """Whether it has the same levels."""
    scheduler_backend_topology_observed_generation: int | None = None
    """The generation of its topology that was compared."""
    message: str = ""
    """What differs."""


class ClusterTopologyBindingStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What was found out about a topology."""

    observed_generation: int | None = None
    """The generation of the object that this status is about."""
    conditions: tuple[Condition, ...] = ()
    scheduler_topology_statuses: tuple[SchedulerTopologyStatus, ...] = ()


class ClusterTopologyBinding(msgspec.Struct, gc=False):
    """Names for the levels of a cluster's topology."""

    metadata: Metadata
    spec: ClusterTopologyBindingSpec
    status: ClusterTopologyBindingStatus = ClusterTopologyBindingStatus()
