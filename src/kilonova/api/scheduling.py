"""`scheduling.kilonova.dev/v1alpha1`: shares of the cluster, and reserved capacity.

- A **Queue** has a share of the cluster. Queues form trees: usage counts in every queue up to the
  root. A queue reclaims its **deserved** resources from queues that borrowed them; beyond that it
  borrows by **weight**, up to its **limit**.
- A **Reservation** reserves capacity from a start time: for one gang, or for any gangs and pods of
  its namespace that name it (`reuseReservationRef` of a PodGang, or the annotation
  `scheduling.kilonova.dev/reservation`).
"""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.meta import Condition, Metadata
from kilonova.api.podgang import NamespacedName
from kilonova.api.times import Time
from kilonova.api.validation_rules import ValidationRule

GROUP = "scheduling.kilonova.dev"
VERSION = "v1alpha1"
DEFAULT_QUEUE = "default"
"""The queue of gangs that name none; the scheduler creates its Queue object."""
NOT_OBSERVED = "not yet observed by a scheduler"
"""The message for a queue without a status."""

Quantity = Annotated[int | str, Meta(extra={"amount": True})]
"""A non-negative quantity: `4`, `500m`, `64Gi`."""

ResourceList = Annotated[dict[str, Quantity], Meta(max_length=64)]
"""Quantities by resource name: `nvidia.com/gpu: 8`."""

Duration = Annotated[
    str,
    Meta(
        pattern=r"^\+?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h))+)$",
        extra={"duration": True},
    ),
]
"""A duration, such as `4h` or `1m30s`."""

Name = Annotated[str, Meta(min_length=1, max_length=253)]
NonNegativeInt = Annotated[int, Meta(ge=0, extra={"format": "int32"})]


class QueueSpec(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The share of a queue."""

    RULES: ClassVar = (
        ValidationRule(
            "!has(self.deserved) || !has(self.limit) || self.deserved.all(name,"
            " !(name in self.limit) || quantity(string(self.deserved[name]))"
            ".compareTo(quantity(string(self.limit[name]))) <= 0)",
            "a queue cannot deserve more than its limit: raise limit or lower deserved",
            field_path=".limit",
        ),
    )

    parent: Name | None = None
    """The parent queue; none for a top-level queue, which shares the whole cluster."""
    deserved: ResourceList = {}
    """The guaranteed resources: the queue can reclaim them from queues that use more than they
    deserve. Where a queue with children does not set a resource, it is the sum of theirs."""
    limit: ResourceList = {}
    """The maximum usage; a resource that is not listed is unlimited."""
    weight: Annotated[NonNegativeInt, Meta(extra={"default": 1})] = 1
    """The share of the resources that no queue deserves, relative to sibling queues; with 0 the
    queue gets only what its siblings do not request."""
    priority: Annotated[int, Meta(extra={"format": "int32", "default": 0})] = 0
    """Sibling queues of higher priority share the resources that no queue deserves before the
    others."""
    preempt_min_runtime: Duration | None = None
    """For this time after its start, a gang of the queue is not preempted by a gang of higher
    priority in the same queue. Defaults to the parent's value, and to 0 in a top-level queue."""
    reclaim_min_runtime: Duration | None = None
    """For this time after its start, a gang of the queue is not preempted by another queue that
    reclaims its deserved resources. Defaults to the parent's value, and to 0 in a top-level
    queue."""


class QueueStatus(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The observed state of a queue."""

    observed_generation: int | None = None
    """The generation that this status describes."""
    allocated: ResourceList = {}
    """The usage of its gangs, including descendant queues."""
    requested: ResourceList = {}
    """The usage and pending requests of its gangs, including descendant queues."""
    fair_share: ResourceList = {}
    """The fair share at the current requests of all queues."""
    pending_gangs: Annotated[NonNegativeInt, Meta(extra={"default": 0})] = 0
    """The number of pending gangs, including descendant queues."""
    conditions: tuple[Condition, ...] = ()
    """Ready is true if gangs of this queue are scheduled; otherwise its message states what to
    fix."""


class Queue(msgspec.Struct, gc=False):
    """A share of the cluster."""

    RULES: ClassVar = (
        ValidationRule(
            "!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",
            "a queue cannot be its own parent: name another queue, or none",
            field_path=".spec.parent",
        ),
    )

    metadata: Metadata
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class Toleration(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A toleration of node taints."""

    key: str = ""
    """The key of the taint. Defaults to all keys."""
    operator: Annotated[Literal["Equal", "Exists"], Meta(extra={"default": "Equal"})] = "Equal"
    """Whether the value must match."""
    value: str = ""
    """The value of the taint."""
    effect: str = ""
    """The effect of the taint. Defaults to all effects."""


class ReservedPods(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Capacity for a number of equal pods."""

    count: Annotated[int, Meta(ge=1, le=4096, extra={"format": "int32"})]
    """The number of pods."""
    requests: Annotated[ResourceList, Meta(min_length=1)]
    """The requests of each pod."""
    node_selector: dict[str, str] = {}
    """The node labels that the pods require."""
    tolerations: tuple[Toleration, ...] = ()
    """The node taints that the pods tolerate."""


ReservationPhase = Literal["Waiting", "Pending", "Reserved", "Used", "Expired"]


class ReservationSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What is reserved, for which gangs, from when and until when."""

    RULES: ClassVar = (
        ValidationRule(
            "has(self.podGang) != has(self.pods)",
            "set what is reserved: either podGang or pods",
        ),
        ValidationRule(
            "has(self.duration) != has(self.until)",
            "set how long it is reserved: either duration or until",
        ),
        ValidationRule(
            "!has(self.start) || !has(self.until) || self.start < self.until",
            "until must be after start",
            field_path=".until",
        ),
        ValidationRule(
            "!has(self.podGang) || !has(self.topologyKey)",
            "topologyKey is for pods: a gang has constraints of its own",
            field_path=".topologyKey",
        ),
    )

    pod_gang: Name | None = None
    """A gang of the same namespace: reserves capacity for all its pods, exclusively."""
    pods: Annotated[tuple[ReservedPods, ...], Meta(min_length=1, max_length=64)] | None = None
    """Reserves capacity for pods like these, for any gang that names the reservation."""
    topology_key: Name | None = None
    """The key of a node label: all capacity is on nodes with the same value."""
    queue: Name | None = None
    """The queue that the capacity is charged to. Defaults to the queue of the gang, or the default
    queue."""
    start: Time | None = None
    """When the reservation starts. Defaults to as soon as there is free capacity."""
    duration: Duration | None = None
    """How long the capacity is reserved, from the time it became reserved."""
    until: Time | None = None
    """When the reservation ends, used or not."""


class ReservedNode(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Capacity for equal pods that is reserved on a node."""

    name: str
    """The name of the node."""
    pods: NonNegativeInt
    """The number of pods that the capacity is for."""
    requests: ResourceList = {}
    """The requests of each pod."""
    devices: str = ""
    """All GPUs that are reserved for them, in the format of the devices annotation: `0,1,2,3`."""


class ReservationStatus(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The observed state of a reservation."""

    observed_generation: int | None = None
    """The generation that this status describes."""
    phase: Annotated[ReservationPhase, Meta(extra={"default": "Pending"})] = "Pending"
    """Waiting until it starts, Pending until there is free capacity, Reserved while the capacity is
    held, Used while a gang runs there, Expired at its end."""
    nodes: tuple[ReservedNode, ...] = ()
    """The nodes with the reserved capacity, including the part in use. It is preserved across
    restarts."""
    used_by: NamespacedName | None = None
    """The gang or pod that uses the capacity; the first by name, if there are several."""
    reserved_at: Time | None = None
    """When the capacity became reserved."""
    expires_at: Time | None = None
    """When the reservation ends."""
    conditions: tuple[Condition, ...] = ()
    """Reserved is true if the capacity is reserved; otherwise its message states why not."""


class Reservation(msgspec.Struct, gc=False):
    """Capacity that is reserved for a gang."""

    metadata: Metadata
    spec: ReservationSpec
    status: ReservationStatus = ReservationStatus()
