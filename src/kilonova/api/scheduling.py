"""`scheduling.kilonova.dev/v1alpha1`: who may use how much, and what is kept for whom.

- A **Queue** has a share of the cluster. Queues form trees: what is used counts in every queue on
  the way up. What a queue **deserves** it gets back from those that borrowed it; above that it
  borrows by **weight**, up to its **limit**.
- A **Reservation** keeps room free from some time on: for one gang, or for whichever gangs and pods
  of its namespace name it (`reuseReservationRef` of a PodGang, or the annotation
  `scheduling.kilonova.dev/reservation`).
"""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.meta import Condition, Metadata
from kilonova.api.podgang import NamespacedName
from kilonova.api.rules import Rule
from kilonova.api.times import Time

GROUP = "scheduling.kilonova.dev"
VERSION = "v1alpha1"
DEFAULT_QUEUE = "default"
"""The queue of gangs that name none; it is there even if nobody made it."""

Quantity = Annotated[int | str, Meta(extra={"amount": True})]
"""As Kubernetes writes amounts, none below 0: `4`, `500m`, `64Gi`."""

Amounts = Annotated[dict[str, Quantity], Meta(max_length=64)]
"""By the name of a resource: `nvidia.com/gpu: 8`."""

Duration = Annotated[
    str,
    Meta(
        pattern=r"^\+?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h))+)$",
        extra={"duration": True},
    ),
]
"""As `4h`, `1m30s`."""

Name = Annotated[str, Meta(min_length=1, max_length=253)]
Natural = Annotated[int, Meta(ge=0, extra={"format": "int32"})]


class QueueSpec(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What a queue may use."""

    RULES: ClassVar = (
        Rule(
            "!has(self.deserved) || !has(self.limit) || self.deserved.all(name,"
            " !(name in self.limit) || quantity(string(self.deserved[name]))"
            ".compareTo(quantity(string(self.limit[name]))) <= 0)",
            "a queue cannot deserve more than its limit: raise limit or lower deserved",
            field_path=".limit",
        ),
    )

    parent: Name | None = None
    """The queue that this one is part of; none for a queue that shares the whole cluster."""
    deserved: Amounts = {}
    """What the queue gets back whenever it asks for it, from queues that use more than they
    deserve. What a queue with children does not say is the sum of theirs."""
    limit: Amounts = {}
    """Never more than this; a resource that is not named has no limit."""
    weight: Annotated[Natural, Meta(extra={"default": 1})] = 1
    """Part of what nobody deserves, relative to the queues beside it; with 0 it gets what the
    others do not ask for."""
    priority: Annotated[int, Meta(extra={"format": "int32", "default": 0})] = 0
    """Of the queues beside each other, those of higher priority share what nobody deserves before
    the others do."""
    preempt_min_runtime: Duration | None = None
    """So long after its start no gang of the queue makes room for a more important one of the same
    queue. Where it is not said it is as in the parent, and none at the top."""
    reclaim_min_runtime: Duration | None = None
    """So long after its start no gang of the queue makes room for another queue that gets back
    what it deserves. Where it is not said it is as in the parent, and none at the top."""


class QueueStatus(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """How a queue is used."""

    observed_generation: int | None = None
    """The generation of the object that this status is about."""
    allocated: Amounts = {}
    """What its gangs use, with those of the queues below it."""
    requested: Amounts = {}
    """What its gangs use and wait for, with those of the queues below it."""
    fair_share: Amounts = {}
    """What it can count on as long as all queues ask for what they ask for now."""
    pending_gangs: Annotated[Natural, Meta(extra={"default": 0})] = 0
    """Gangs that wait for a place, with those of the queues below it."""
    conditions: tuple[Condition, ...] = ()
    """Ready says whether gangs of the queue are placed, and what to repair if they are not."""


class Queue(msgspec.Struct, gc=False):
    """A share of the cluster."""

    RULES: ClassVar = (
        Rule(
            "!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",
            "a queue cannot be its own parent: name another queue, or none",
            field_path=".spec.parent",
        ),
    )

    metadata: Metadata
    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class Toleration(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Which taints of nodes pods put up with."""

    key: str = ""
    """Key of the taint; all, where it is not said."""
    operator: Annotated[Literal["Equal", "Exists"], Meta(extra={"default": "Equal"})] = "Equal"
    """Whether the value counts."""
    value: str = ""
    """Value of the taint."""
    effect: str = ""
    """Effect of the taint; all, where it is not said."""


class ReservedPods(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Room for some equal pods."""

    count: Annotated[int, Meta(ge=1, le=4096, extra={"format": "int32"})]
    """How many pods."""
    requests: Annotated[Amounts, Meta(min_length=1)]
    """What each of them asks for."""
    node_selector: dict[str, str] = {}
    """Labels of the nodes that they may stand on."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints of nodes that do not keep them away."""


ReservationPhase = Literal["Waiting", "Pending", "Reserved", "Used", "Expired"]


class ReservationSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What is kept, for whom, from when and until when."""

    RULES: ClassVar = (
        Rule(
            "has(self.podGang) != has(self.pods)",
            "say what is reserved: either podGang or pods",
        ),
        Rule(
            "has(self.duration) != has(self.until)",
            "say how long it is reserved: either duration or until",
        ),
        Rule(
            "!has(self.start) || !has(self.until) || self.start < self.until",
            "until must be after start",
            field_path=".until",
        ),
        Rule(
            "!has(self.podGang) || !has(self.topologyKey)",
            "topologyKey is for pods: a gang has constraints of its own",
            field_path=".topologyKey",
        ),
    )

    pod_gang: Name | None = None
    """A gang of the same namespace: room for all its pods, for nobody else."""
    pods: Annotated[tuple[ReservedPods, ...], Meta(min_length=1, max_length=64)] | None = None
    """Room for pods like these, for whichever gang names the reservation."""
    topology_key: Name | None = None
    """Key of a node label: all of it on nodes that have the same value."""
    queue: Name | None = None
    """The queue that the room counts in; that of the gang, or the default one."""
    start: Time | None = None
    """From when on it is kept; as soon as there is room where it is not said."""
    duration: Duration | None = None
    """How long it is kept, from when there was room for it."""
    until: Time | None = None
    """When it ends, whether it was used or not."""


class ReservedNode(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Room for equal pods that is kept on a node."""

    name: str
    """Name of the node."""
    pods: Natural
    """Room for so many pods."""
    requests: Amounts = {}
    """What each of them asks for."""
    devices: str = ""
    """All GPUs that are kept for them, as on pods that have them: `0,1,2,3`."""


class ReservationStatus(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """How far a reservation is."""

    observed_generation: int | None = None
    """The generation of the object that this status is about."""
    phase: Annotated[ReservationPhase, Meta(extra={"default": "Pending"})] = "Pending"
    """Waiting until it starts, Pending until there is room, Reserved while it is kept, Used while a
    gang stands there, Expired at its end."""
    nodes: tuple[ReservedNode, ...] = ()
    """Where the room is, that which is used included. What it says is kept across restarts."""
    used_by: NamespacedName | None = None
    """The gang or pod that stands there; the first by name, if several do."""
    reserved_at: Time | None = None
    """Since when the room is kept."""
    expires_at: Time | None = None
    """When it is given up."""
    conditions: tuple[Condition, ...] = ()
    """Reserved says whether the room is kept, and what is in the way if it is not."""


class Reservation(msgspec.Struct, gc=False):
    """Room that is kept for a gang."""

    metadata: Metadata
    spec: ReservationSpec
    status: ReservationStatus = ReservationStatus()
