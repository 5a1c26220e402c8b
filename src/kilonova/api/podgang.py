"""`scheduler.grove.io/v1alpha1`: the PodGang, the unit of scheduling.

Everything that needs placement becomes a PodGang. A gang has several **groups** of pods; at least
`min_replicas` pods of every group start together, or none does. Surplus pods of a group are
scheduled when there is free capacity.
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
    """The namespace of the object."""
    name: str
    """The name of the object."""


class PackConstraint(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Packs pods into one domain of a topology; each level is the key of a node label."""

    required: str | None = None
    """Required: all pods in one domain of this level."""
    preferred: str | None = None
    """Preferred: pods in as few domains of this level as possible."""


class TopologyConstraint(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Where the pods of a gang are placed relative to each other."""

    pack_constraint: PackConstraint | None = None


class PodGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Pods of one role."""

    name: str
    """The name of the PodClique of these pods."""
    pod_references: tuple[NamespacedName, ...]
    """The pods, sorted by name."""
    min_replicas: Annotated[int, Meta(ge=0, extra={"format": "int32"})]
    """The number of pods that must start together with the rest of the gang."""
    topology_constraint: TopologyConstraint | None = None


class TopologyConstraintGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A constraint on several groups together."""

    name: str
    """The name of the constraint."""
    pod_group_names: tuple[str, ...]
    """The groups that it applies to."""
    topology_constraint: TopologyConstraint | None = None


class Spread(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Spreads gangs with the same value of a label over domains."""

    topology_key: str
    """The key of the node label whose values are the domains."""
    among: str
    """The key of the PodGang label: gangs with the same value are spread."""
    required: bool = False
    """Require different domains for all of them, instead of spreading them as evenly as
    possible."""


class PodGangSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The pods that are scheduled together, and their constraints."""

    pod_groups: tuple[PodGroup, ...] = msgspec.field(name="podgroups")
    topology_constraint: TopologyConstraint | None = None
    topology_constraint_group_configs: tuple[TopologyConstraintGroup, ...] = ()
    priority_class_name: str = ""
    """The priority class of the gang."""
    reuse_reservation_ref: NamespacedName | None = None
    base_ref: NamespacedName | None = None
    """The base gang, which must be scheduled first; where `topologyConstraint` requires a domain,
    this gang is placed in the domain of the base gang."""
    spread: Spread | None = None


class PodGangStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The observed state of a gang."""

    phase: Annotated[Phase, Meta(extra={"default": "Pending", "required": True})] = "Pending"
    """Pending until the minimum of pods is scheduled, Starting until they are ready, then Running;
    Succeeded or Failed when its pods have finished."""
    conditions: tuple[Condition, ...] = ()
    placement_score: float | None = None
    """How close to each other its pods are placed; 1 is optimal."""
    last_scheduled: Time | None = None
    """When the condition Scheduled last became true."""
    last_ready: Time | None = None
    """When the condition Ready last became true."""


class PodGang(msgspec.Struct, gc=False):
    """Pods that are scheduled together, or not at all."""

    metadata: Metadata
    spec: PodGangSpec
    status: PodGangStatus = PodGangStatus()
