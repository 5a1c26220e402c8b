"""Objects of the API as the console sees them: the fields that it shows, and no others.

There may be very many pods, and the console is one of several parts in a process: labels and
annotations are projected like any other field, and parts that are equal in many objects are kept
once.
"""

import msgspec
from msgspec.structs import force_setattr

from kilonova.api import gpus, podgang, scheduling
from kilonova.api.grove import GROUP as GROVE
from kilonova.api.grove import VERSION as GROVE_VERSION
from kilonova.api.grove import names
from kilonova.api.grove.parts import LastError
from kilonova.api.meta import Condition, OwnerReference, shared
from kilonova.api.schedulingnames import KAI_QUEUE, QUEUE
from kilonova.kube import Resource

Quantities = dict[str, str | int | float]
"""Amounts by the name of a resource, as they are written."""

PRICE = "kilonova.dev/gpu-hourly-price"
"""Label or annotation of a node: USD that one of its GPUs costs per hour."""


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    name: str
    resource_version: str = ""
    creation_timestamp: str = ""


class _NamespacedMeta(_Meta, frozen=True, gc=False, rename="camel", kw_only=True):
    namespace: str = ""
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "owner_references", shared(self.owner_references))

    @property
    def id(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object."""
        return next((each for each in self.owner_references if each.controller), None)


# Nodes.


class NodeLabels(msgspec.Struct, frozen=True, gc=False):
    """Where a node stands, and what GPUs it has."""

    zone: str = msgspec.field(default="", name="topology.kubernetes.io/zone")
    block: str = msgspec.field(default="", name="kilonova.dev/block")
    rack: str = msgspec.field(default="", name="kilonova.dev/rack")
    kind: str = msgspec.field(default="", name="kilonova.dev/node-kind")
    product: str = msgspec.field(default="", name="nvidia.com/gpu.product")
    memory: str = msgspec.field(default="", name="nvidia.com/gpu.memory")
    clique: str = msgspec.field(default="", name="nvidia.com/gpu.clique")
    price: str = msgspec.field(default="", name=PRICE)


class NodeAnnotations(msgspec.Struct, frozen=True, gc=False):
    """What is told of a node's GPUs."""

    topology: str = msgspec.field(default="", name=gpus.TOPOLOGY)
    price: str = msgspec.field(default="", name=PRICE)

    def __post_init__(self) -> None:
        force_setattr(self, "topology", shared(self.topology))


class NodeMeta(_Meta, frozen=True, gc=False, rename="camel", kw_only=True):
    """Metadata of a node."""

    labels: NodeLabels = NodeLabels()
    annotations: NodeAnnotations = NodeAnnotations()


class Taint(msgspec.Struct, frozen=True, gc=False):
    """What keeps pods off a node that do not tolerate it."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """What a node should be."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """What a node has, and how it is."""

    capacity: Quantities = {}
    allocatable: Quantities = {}
    conditions: tuple[Condition, ...] = ()


class Node(msgspec.Struct, gc=False):
    """A node."""

    metadata: NodeMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# Pods.


class PodLabels(msgspec.Struct, frozen=True, gc=False):
    """What a pod belongs to."""

    managed_by: str = msgspec.field(default="", name=names.MANAGED_BY)
    part_of: str = msgspec.field(default="", name=names.PART_OF)
    gang: str = msgspec.field(default="", name=names.POD_GANG)
    clique: str = msgspec.field(default="", name=names.POD_CLIQUE)
    template_hash: str = msgspec.field(default="", name="pod-template-hash")
    queue: str = msgspec.field(default="", name=QUEUE)
    kai_queue: str = msgspec.field(default="", name=KAI_QUEUE)


class PodAnnotations(msgspec.Struct, frozen=True, gc=False):
    """What a pod was given; a mirror pod stands for a file on its node."""

    devices: str = msgspec.field(default="", name=gpus.DEVICES)
    mirror: str = msgspec.field(default="", name="kubernetes.io/config.mirror")


class PodMeta(_NamespacedMeta, frozen=True, gc=False, rename="camel", kw_only=True):
    """Metadata of a pod."""

    uid: str = ""
    labels: PodLabels = PodLabels()
    annotations: PodAnnotations = PodAnnotations()


class Resources(msgspec.Struct, frozen=True, gc=False):
    """What is asked for; a template may name only its limits."""

    requests: Quantities = {}
    limits: Quantities = {}


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container of a pod."""

    name: str = ""
    resources: Resources = Resources()
    restart_policy: str = ""


class SchedulingGate(msgspec.Struct, frozen=True, gc=False):
    """What a pod waits for before a scheduler looks for a node for it."""

    name: str = ""


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod asks for."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "scheduler_name", shared(self.scheduler_name))


class Waiting(msgspec.Struct, frozen=True, gc=False):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class Running(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container that runs."""

    started_at: str | None = None


class Terminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a container ended."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """What a container does."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a container is doing."""

    name: str = ""
    ready: bool = False
    started: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a pod is doing."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "conditions", shared(self.conditions))
        force_setattr(self, "container_statuses", shared(self.container_statuses))


class Pod(msgspec.Struct, gc=False):
    """A pod."""

    metadata: PodMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# Sets and their cliques; gangs and queues are as `kilonova.api` has them.


class GroveMeta(_NamespacedMeta, frozen=True, gc=False, rename="camel", kw_only=True):
    """Metadata of what makes pods; the labels by which it is placed are those of its pods."""

    labels: PodLabels = PodLabels()


class CliqueSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Pods of one role."""

    role_name: str = ""
    replicas: int = 1
    min_available: int | None = None
    starts_after: tuple[str, ...] = ()
    pod_spec: PodSpec = PodSpec()

    @property
    def least(self) -> int:
        """How many pods it must have."""
        return self.replicas if self.min_available is None else self.min_available


class CliqueStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How many pods are how far."""

    ready_replicas: int = 0
    scheduled_replicas: int = 0


class PodClique(msgspec.Struct, gc=False):
    """The pods of one role in one replica of a set."""

    metadata: GroveMeta
    spec: CliqueSpec
    status: CliqueStatus = CliqueStatus()


class CliqueTemplate(msgspec.Struct, frozen=True, gc=False):
    """A role in every replica of a set."""

    name: str
    spec: CliqueSpec


class Template(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A replica of a set."""

    cliques: tuple[CliqueTemplate, ...] = ()
    clique_startup_type: str = ""


class SetSpec(msgspec.Struct, frozen=True, gc=False):
    """How many replicas of which template."""

    template: Template = Template()
    replicas: int = 0


class GangSummary(msgspec.Struct, frozen=True, gc=False):
    """How far one gang of a set is."""

    name: str
    phase: str = "Pending"


class SetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a set is."""

    available_replicas: int = 0
    updated_replicas: int = 0
    conditions: tuple[Condition, ...] = ()
    last_errors: tuple[LastError, ...] = ()
    pod_gang_statuses: tuple[GangSummary, ...] = ()


class PodCliqueSet(msgspec.Struct, gc=False):
    """A whole AI system."""

    metadata: GroveMeta
    spec: SetSpec
    status: SetStatus = SetStatus()


# Events, and what nodes use.


class EventMeta(_Meta, frozen=True, gc=False, rename="camel", kw_only=True):
    """Metadata of an event."""

    namespace: str = ""


class About(msgspec.Struct, frozen=True, gc=False):
    """The object that an event is about."""

    kind: str = ""
    namespace: str = ""
    name: str = ""


class Source(msgspec.Struct, frozen=True, gc=False):
    """Who tells it."""

    component: str = ""


class Series(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How often it happened."""

    count: int = 0
    last_observed_time: str | None = None


class Event(msgspec.Struct, gc=False, rename="camel"):
    """What happened to an object, as core/v1 has it."""

    metadata: EventMeta
    involved_object: About = About()
    type: str = "Normal"
    reason: str = ""
    message: str = ""
    count: int = 0
    series: Series | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    source: Source = Source()
    reporting_component: str = ""


class NodeMetrics(msgspec.Struct, gc=False):
    """What a node uses."""

    metadata: _Meta
    usage: Quantities = {}


NODES = Resource("", "v1", "nodes", "Node", False, Node)
PODS = Resource("", "v1", "pods", "Pod", True, Pod)
GANGS = Resource(podgang.GROUP, podgang.VERSION, "podgangs", "PodGang", True, podgang.PodGang)
SETS = Resource(GROVE, GROVE_VERSION, "podcliquesets", "PodCliqueSet", True, PodCliqueSet)
CLIQUES = Resource(GROVE, GROVE_VERSION, "podcliques", "PodClique", True, PodClique)
QUEUES = Resource(scheduling.GROUP, scheduling.VERSION, "queues", "Queue", False, scheduling.Queue)
EVENTS = Resource("", "v1", "events", "Event", True, Event)
METRICS = Resource("metrics.k8s.io", "v1beta1", "nodes", "NodeMetrics", False, NodeMetrics)
