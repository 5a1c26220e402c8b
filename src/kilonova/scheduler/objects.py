"""Objects of the API as the scheduler sees them: the fields that it decides by, and no others.

There may be very many pods. Parts that are equal in many of them are kept once, and nothing here is
of concern to the collector.
"""

import msgspec
from msgspec.structs import force_setattr

from kilonova.api import podgang, scheduling
from kilonova.api.meta import Condition, Metadata, shared
from kilonova.kube import Resource

Quantities = dict[str, str | int | float]


class LabelRequirement(msgspec.Struct, frozen=True, gc=False):
    """What a label must be."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Requirements that must all hold."""

    match_expressions: tuple[LabelRequirement, ...] = ()
    match_fields: tuple[LabelRequirement, ...] = ()


class NodeSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeTerm, ...] = ()


class PreferredNodes(msgspec.Struct, frozen=True, gc=False):
    """Nodes that a pod would rather be on."""

    weight: int
    preference: NodeTerm


class NodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """Which nodes a pod may be on, and would rather be on."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredNodes, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class LabelSelector(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which labels are meant; without any requirement, all."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelRequirement, ...] = ()


class PodTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Pods in the same domain of a topology."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PreferredPods(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Pods that a pod would rather be near, or away from."""

    weight: int
    pod_affinity_term: PodTerm


class PodAffinity(msgspec.Struct, frozen=True, gc=False):
    """Which pods a pod must, and would rather, be near or away from."""

    required: tuple[PodTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredPods, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Where a pod wants to be."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How evenly pods stand in the domains of a topology."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class ClaimSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The claim whose volume it is."""

    claim_name: str


class EphemeralSource(msgspec.Struct, frozen=True, gc=False):
    """A claim is made for the pod, and goes with it."""


class Volume(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume of a pod; other sources than these can be had on any node."""

    name: str
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: EphemeralSource | None = None

    def claim_name(self, pod: str) -> str | None:
        """The PersistentVolumeClaim behind it, if there is one."""
        if self.persistent_volume_claim is not None:
            return self.persistent_volume_claim.claim_name
        return f"{pod}-{self.name}" if self.ephemeral is not None else None


class Toleration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which taints a pod puts up with."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Port(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port of a container."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Resources(msgspec.Struct, frozen=True, gc=False):
    """What is asked for."""

    requests: Quantities = {}


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A container of a pod."""

    resources: Resources = Resources()
    ports: tuple[Port, ...] = ()
    restart_policy: str = ""
    name: str = ""


class SchedulingGate(msgspec.Struct, frozen=True, gc=False):
    """What a pod waits for before anybody looks for a node for it."""

    name: str


class PodClaim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Devices that a pod claims: by a claim that is there, or one that is made from a template."""

    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The claim that was made for a pod; none if it needs none after all."""

    name: str
    resource_claim_name: str | None = None


class ExtendedResourceClaimStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The claim that a scheduler made for a pod's extended resources."""

    resource_claim_name: str = ""


class SchedulingGroup(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The PodGroup of Kubernetes that a pod belongs to."""

    pod_group_name: str = ""


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod asks for."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    node_selector: dict[str, str] = {}
    priority: int = 0
    preemption_policy: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    topology_spread_constraints: tuple[SpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodClaim, ...] = ()
    overhead: Quantities = {}
    resources: Resources = Resources()
    scheduling_group: SchedulingGroup | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "tolerations", shared(self.tolerations))
        if self.scheduling_group is not None:
            force_setattr(self, "scheduling_group", shared(self.scheduling_group))


class Terminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a container ended."""

    exit_code: int = 0
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """What a container does; only its end is of interest."""

    terminated: Terminated | None = None


class ReportedAmounts(msgspec.Struct, frozen=True, gc=False):
    """What may be resized in place of what a container has."""

    cpu: str | int | float | None = None
    memory: str | int | float | None = None


class ReportedResources(msgspec.Struct, frozen=True, gc=False):
    """What a container has, as its kubelet says."""

    requests: ReportedAmounts = ReportedAmounts()


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a container is doing, and what it has on its node."""

    state: ContainerState = ContainerState()
    name: str = ""
    resources: ReportedResources | None = None
    allocated_resources: ReportedAmounts | None = None


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a pod is doing."""

    phase: str = "Pending"
    reason: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    """The node that was promised to it, while others leave it."""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[PodClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "conditions", shared(self.conditions))
        force_setattr(self, "container_statuses", shared(self.container_statuses))
        if self.init_container_statuses:
            shared_ones = shared(self.init_container_statuses)
            force_setattr(self, "init_container_statuses", shared_ones)


class Pod(msgspec.Struct, gc=False):
    """A pod."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def ended(self) -> bool:
        """Whether none of its containers runs, or ever will again."""
        return self.status.phase in ("Succeeded", "Failed")


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
    """What a node has."""

    allocatable: Quantities = {}


class Node(msgspec.Struct, gc=False):
    """A node."""

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
