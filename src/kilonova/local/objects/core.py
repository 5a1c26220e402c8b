"""Pods and nodes as built-in controllers see them, and pods as simulated nodes do.

One projection each, of the fields that at least one of them uses, so that one cache serves all
(`ControllerContext.informer(PODS)`). Add a field here when one is needed; defaults are those of an
object without the field. Decoded JSON has no reference cycles, so the structs are not tracked by
Python's garbage collector (`gc=False`): there may be very many. Values that are equal in many
objects, such as default tolerations, are interned.
"""

from typing import Any

import msgspec
from msgspec.structs import force_setattr

from kilonova.api.meta import Condition, Metadata, intern_value
from kilonova.kube import Resource


class Toleration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The taints that a pod tolerates."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class ContainerPort(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port of a container."""

    container_port: int
    name: str = ""
    protocol: str = "TCP"
    host_port: int = 0


class ResourceRequirements(msgspec.Struct, frozen=True, gc=False):
    """Requests and limits of a container."""

    requests: dict[str, str | int | float] = {}
    limits: dict[str, str | int | float] = {}


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container of a pod."""

    name: str
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""


class NodeSelectorRequirement(msgspec.Struct, frozen=True, gc=False):
    """A requirement on a label or field of a node."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Requirements that must all match."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Terms of which one must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """The node affinity of a pod."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The affinity of a pod."""

    node_affinity: NodeAffinity | None = None


class PersistentVolumeClaimSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A reference to an existing claim."""

    claim_name: str


class EphemeralVolumeSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume whose claim is created for a pod, and deleted with it."""

    volume_claim_template: dict[str, Any] = {}


class Volume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume of a pod; other sources are only relevant to its node."""

    name: str
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolumeSource | None = None

    def claim_name(self, pod: str) -> str | None:
        """The name of its PersistentVolumeClaim, if it has one."""
        if self.persistent_volume_claim is not None:
            return self.persistent_volume_claim.claim_name
        return f"{pod}-{self.name}" if self.ephemeral is not None else None


class PodResourceClaim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A resource claim of a pod: an existing one, or one created from a template."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a pod."""

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
    resources: ResourceRequirements = ResourceRequirements()
    """Pod-level resources, if set."""
    resource_claims: tuple[PodResourceClaim, ...] = ()
    volumes: tuple[Volume, ...] = ()

    def __post_init__(self) -> None:
        force_setattr(self, "tolerations", intern_value(self.tolerations))


class ContainerStateRunning(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Since when a container runs."""

    started_at: str | None = None


class ContainerStateTerminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """Exactly one field is set."""

    terminated: ContainerStateTerminated | None = None
    running: ContainerStateRunning | None = None


class AllocatedDevice(msgspec.Struct, frozen=True, gc=False):
    """A device allocated to a container."""

    id: str = msgspec.field(default="", name="resourceID")


class AllocatedResourceStatus(msgspec.Struct, frozen=True, gc=False):
    """The devices of one resource allocated to a container."""

    name: str
    resources: tuple[AllocatedDevice, ...] | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a container."""

    name: str
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    """How it ended the last time, if it was restarted."""
    allocated_resources_status: tuple[AllocatedResourceStatus, ...] | None = None


class PodIP(msgspec.Struct, frozen=True, gc=False):
    """One of a pod's addresses."""

    ip: str


class PodResourceClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The claim generated for a pod; without a name none was needed."""

    name: str
    resource_claim_name: str | None = None


class ExtendedResourceClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The claim that the scheduler created for the extended resources of a pod."""

    resource_claim_name: str = ""


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a pod."""

    phase: str = "Pending"
    reason: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] = msgspec.field(default=(), name="podIPs")
    start_time: str | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "conditions", intern_value(self.conditions))


class Pod(msgspec.Struct, gc=False):
    """A pod."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, type_: str) -> Condition | None:
        return next((each for each in self.status.conditions if each.type == type_), None)

    @property
    def is_ready(self) -> bool:
        found = self.condition("Ready")
        return found is not None and found.status == "True"

    @property
    def is_terminal(self) -> bool:
        """Whether its phase is Succeeded or Failed."""
        return self.status.phase in ("Succeeded", "Failed")


class Taint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Repels pods that do not tolerate it."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """The status of a node."""

    conditions: tuple[Condition, ...] = ()
    allocatable: dict[str, str | int | float] = {}


class Node(msgspec.Struct, gc=False):
    """A node."""

    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


PODS = Resource("", "v1", "pods", "Pod", True, Pod)
NODES = Resource("", "v1", "nodes", "Node", False, Node)
