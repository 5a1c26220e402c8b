"""Objects of the core API group, with only the fields that the scheduler uses.

There may be very many pods. Values that are equal in many of them are interned, and the structs are
invisible to the garbage collector.
"""

import msgspec
from msgspec.structs import force_setattr

from kilonova.api import podgang, scheduling
from kilonova.api.meta import Condition, Metadata, intern_value
from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME
from kilonova.kube import Resource

Quantities = dict[str, str | int | float]


class LabelRequirement(msgspec.Struct, frozen=True, gc=False):
    """A requirement on one label or field."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Requirements that must all hold."""

    match_expressions: tuple[LabelRequirement, ...] = ()
    match_fields: tuple[LabelRequirement, ...] = ()


class NodeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(msgspec.Struct, frozen=True, gc=False):
    """Preferred nodes."""

    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """Required and preferred nodes."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class LabelSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A label selector; one without requirements matches everything."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelRequirement, ...] = ()


class PodAffinityTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Pods in the same topology domain."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Preferred pods to be near, or away from."""

    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(msgspec.Struct, frozen=True, gc=False):
    """Required and preferred pods to be near, or away from."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Node affinity, pod affinity and pod anti-affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How evenly pods are spread over topology domains."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class PersistentVolumeClaimSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A reference to a PersistentVolumeClaim."""

    claim_name: str


class EphemeralVolumeSource(msgspec.Struct, frozen=True, gc=False):
    """A generic ephemeral volume: a claim is created for the pod and deleted with it."""


class Volume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume of a pod; sources other than these exist on every node."""

    name: str
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolumeSource | None = None

    def claim_name(self, pod: str) -> str | None:
        """The name of the PersistentVolumeClaim behind the volume, if any."""
        if self.persistent_volume_claim is not None:
            return self.persistent_volume_claim.claim_name
        return f"{pod}-{self.name}" if self.ephemeral is not None else None


class Toleration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A toleration of taints."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class ContainerPort(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port of a container."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class ResourceRequirements(msgspec.Struct, frozen=True, gc=False):
    """Resource requests."""

    requests: Quantities = {}


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container of a pod."""

    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    name: str = ""


class SchedulingGate(msgspec.Struct, frozen=True, gc=False):
    """A scheduling gate of a pod."""

    name: str


class PodResourceClaim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A ResourceClaim of a pod: an existing one, or one created from a template."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodResourceClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The name of the claim created for a pod; None if it needs none."""

    name: str
    resource_claim_name: str | None = None


class ExtendedResourceClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The claim that a scheduler created for a pod's extended resources."""

    resource_claim_name: str = ""


class SchedulingGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The Kubernetes PodGroup of a pod."""

    pod_group_name: str = ""


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a pod."""

    node_name: str = ""
    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    node_selector: dict[str, str] = {}
    priority: int = 0
    preemption_policy: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    overhead: Quantities = {}
    resources: ResourceRequirements = ResourceRequirements()
    scheduling_group: SchedulingGroup | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "tolerations", intern_value(self.tolerations))
        if self.scheduling_group is not None:
            force_setattr(self, "scheduling_group", intern_value(self.scheduling_group))


class ContainerStateTerminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The end of a container."""

    exit_code: int = 0
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """The state of a container; only its termination is decoded."""

    terminated: ContainerStateTerminated | None = None


class ReportedQuantities(msgspec.Struct, frozen=True, gc=False):
    """CPU and memory reported by the kubelet, which can be resized in place."""

    cpu: str | int | float | None = None
    memory: str | int | float | None = None


class ReportedResources(msgspec.Struct, frozen=True, gc=False):
    """The actual resources of a container, as reported by the kubelet."""

    requests: ReportedQuantities = ReportedQuantities()


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a container."""

    state: ContainerState = ContainerState()
    name: str = ""
    resources: ReportedResources | None = None
    allocated_resources: ReportedQuantities | None = None


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a pod."""

    phase: str = "Pending"
    reason: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    """The node nominated for the pod while victims terminate there."""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "conditions", intern_value(self.conditions))
        force_setattr(self, "container_statuses", intern_value(self.container_statuses))
        if self.init_container_statuses:
            shared_ones = intern_value(self.init_container_statuses)
            force_setattr(self, "init_container_statuses", shared_ones)


class Pod(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def ended(self) -> bool:
        """Whether no container of the pod runs or will run again."""
        return self.status.phase in ("Succeeded", "Failed")


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """The spec of a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """The status of a node."""

    allocatable: Quantities = {}


class Node(msgspec.Struct, gc=False):
    metadata: Metadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


GANGS = Resource(podgang.GROUP, podgang.VERSION, "podgangs", "PodGang", True, podgang.PodGang)
QUEUES = Resource(scheduling.GROUP, scheduling.VERSION, "queues", "Queue", False, scheduling.Queue)
RESERVATIONS = Resource(
    scheduling.GROUP,
    scheduling.VERSION,
    "reservations",
    "Reservation",
    True,
    scheduling.Reservation,
)
PODS = Resource("", "v1", "pods", "Pod", True, Pod)
NODES = Resource("", "v1", "nodes", "Node", False, Node)
