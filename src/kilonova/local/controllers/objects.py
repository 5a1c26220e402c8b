"""Pods and nodes as built-in controllers see them, and pods as simulated nodes do.

One projection each, of the fields that at least one of them uses, so that one cache serves all
(`Workshop.cache(PODS)`). Add a field here when one is needed; defaults are those of an object
that has no such field. What is read from JSON holds no cycles, and is no concern of the collector
(`gc=False`): there may be very many. Parts that are equal in many objects, such as the
tolerations that every pod gets, are kept once.
"""

from typing import Any

import msgspec
from msgspec.structs import force_setattr

from kilonova.api.meta import Condition, Metadata, shared
from kilonova.kube import Resource


class Toleration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which taints a pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Port(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port of a container."""

    container_port: int
    name: str = ""
    protocol: str = "TCP"
    host_port: int = 0


class Resources(msgspec.Struct, frozen=True, gc=False):
    """What a container asks for, and may use at most."""

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container of a pod."""

    name: str
    image: str = ""
    ports: tuple[Port, ...] = ()
    resources: Resources = Resources()
    restart_policy: str = ""


class NodeRequirement(msgspec.Struct, frozen=True, gc=False):
    """What a label or field of a node must be."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Requirements that must all hold."""

    match_expressions: tuple[NodeRequirement, ...] = ()
    match_fields: tuple[NodeRequirement, ...] = ()


class NodeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeTerm, ...] = ()


class NodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """Which nodes a pod may be on."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a pod wants to be."""

    node_affinity: NodeAffinity | None = None


class VolumeClaimSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume that is there: the claim that has it."""

    claim_name: str


class EphemeralSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume that is made for a pod, and goes with it: what its claim is like."""

    volume_claim_template: dict[str, Any] = {}


class Volume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume of a pod; other sources than these concern only its node."""

    name: str
    persistent_volume_claim: VolumeClaimSource | None = None
    ephemeral: EphemeralSource | None = None

    def claim_name(self, pod: str) -> str | None:
        """The PersistentVolumeClaim behind it, if there is one."""
        if self.persistent_volume_claim is not None:
            return self.persistent_volume_claim.claim_name
        return f"{pod}-{self.name}" if self.ephemeral is not None else None


class PodResourceClaim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A claim of devices that a pod uses: one that is there, or one made for it."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod should be."""

    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    host_network: bool = False
    restart_policy: str = "Always"
    priority: int = 0
    priority_class_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    overhead: dict[str, str | int | float] = {}
    resources: Resources = Resources()
    """What the pod asks for as a whole, where it does."""
    resource_claims: tuple[PodResourceClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "tolerations", shared(self.tolerations))


class Running(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Since when a container runs."""

    started_at: str | None = None


class Terminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """One of its fields is set."""

    terminated: Terminated | None = None
    running: Running | None = None


class DeviceHealth(msgspec.Struct, frozen=True, gc=False):
    """A device that a container has."""

    id: str = msgspec.field(default="", name="resourceID")


class AllocatedDevices(msgspec.Struct, frozen=True, gc=False):
    """The devices of one resource that a container has."""

    name: str
    resources: tuple[DeviceHealth, ...] | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a container is doing."""

    name: str
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    """How it ended the last time, where it is started again."""
    allocated_resources_status: tuple[AllocatedDevices, ...] | None = None


class Address(msgspec.Struct, frozen=True, gc=False):
    """One of a pod's addresses."""

    ip: str


class PodResourceClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The claim that was made for a pod; without a name it turned out not to be needed."""

    name: str
    resource_claim_name: str | None = None


class ExtendedResourceClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The claim that the scheduler made for the extended resources of a pod."""

    resource_claim_name: str = ""


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a pod is doing."""

    phase: str = "Pending"
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: tuple[Address, ...] = msgspec.field(default=(), name="podIPs")
    start_time: str | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "conditions", shared(self.conditions))


class Pod(msgspec.Struct, gc=False):
    """A pod."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, type_: str) -> Condition | None:
        return next((each for each in self.status.conditions if each.type == type_), None)

    @property
    def ready(self) -> bool:
        found = self.condition("Ready")
        return found is not None and found.status == "True"

    @property
    def ended(self) -> bool:
        """Whether none of its containers runs, or ever will again."""
        return self.status.phase in ("Succeeded", "Failed")


class Taint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What keeps pods off a node that do not tolerate it."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """What a node should be."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """How a node is doing."""

    conditions: tuple[Condition, ...] = ()
    allocatable: dict[str, str | int | float] = {}


class Node(msgspec.Struct, gc=False):
    """A node."""

    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


PODS = Resource("", "v1", "pods", "Pod", True, Pod)
NODES = Resource("", "v1", "nodes", "Node", False, Node)
