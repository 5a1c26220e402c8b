"""`scheduler.grove.io/v1alpha1`: the PodGang, the one thing that is placed.

Everything that needs placing becomes a PodGang. A gang is several **groups** of pods; at least
`min_replicas` pods of every group start together, or none does. What more pods a group has
follow when there is room.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import Time

GROUP = "scheduler.grove.io"
VERSION = "v1alpha1"

Phase = Literal["Pending", "Starting", "Running", "Failed", "Succeeded"]


class NamespacedName(msgspec.Struct, frozen=True, gc=False):
    """A reference to an object in some namespace."""

    namespace: str
    """Namespace of the object."""
    name: str
    """Name of the object."""


class PackConstraint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Pods stand within one domain of a topology: each is the key of a node label."""

    required: str | None = None
    """All in one domain of this level, or not at all."""
    preferred: str | None = None
    """In as few domains of this level as can be."""


class TopologyConstraint(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Where pods of a gang stand relative to each other."""

    pack_constraint: PackConstraint | None = None


class PodGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Pods of one role."""

    name: str
    """Name of the PodClique whose pods these are."""
    pod_references: tuple[NamespacedName, ...]
    """The pods, sorted by name."""
    min_replicas: Annotated[int, Meta(ge=0, extra={"format": "int32"})]
    """So many start together with the rest of the gang."""
    topology_constraint: TopologyConstraint | None = None


class TopologyConstraintGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A constraint on several groups together."""

    name: str
    """Name of the constraint."""
    pod_group_names: tuple[str, ...]
    """The groups that it is about."""
    topology_constraint: TopologyConstraint | None = None


class Spread(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Gangs that share a label's value stand apart."""

    topology_key: str
    """Key of the node label whose values are the domains."""
    among: str
    """Gangs that have the same value of this label of the PodGang keep apart from each other."""
    required: bool = False
    """No two of them in one domain, instead of as evenly as can be."""


class PodGangSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What should be placed together, and where."""

    pod_groups: tuple[PodGroup, ...] = msgspec.field(name="podgroups")
    topology_constraint: TopologyConstraint | None = None
    topology_constraint_group_configs: tuple[TopologyConstraintGroup, ...] = ()
    priority_class_name: str = ""
    """Priority of the gang among others."""
    reuse_reservation_ref: NamespacedName | None = None
    base_ref: NamespacedName | None = None
    """A gang that must be placed first, and within whose domain this one stands where
    `topologyConstraint` requires one."""
    spread: Spread | None = None


class PodGangStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How far a gang is."""

    phase: Annotated[Phase, Meta(extra={"default": "Pending", "required": True})] = "Pending"
    """Pending until enough pods have a node, Starting until they are ready, then Running;
    Succeeded or Failed when its pods have finished."""
    conditions: tuple[Condition, ...] = ()
    placement_score: float | None = None
    """How good the place is that it got."""
    last_scheduled: Time | None = None
    """When Scheduled became true last."""
    last_ready: Time | None = None
    """When Ready became true last."""


class PodGang(msgspec.Struct, gc=False):
    """Pods that are placed together."""

    metadata: Metadata
    spec: PodGangSpec
    status: PodGangStatus = PodGangStatus()
