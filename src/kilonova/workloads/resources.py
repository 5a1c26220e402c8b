"""What the operator reads and writes."""

from typing import Any

import msgspec

from kilonova.api import grove, podgang
from kilonova.api.meta import Condition, Metadata
from kilonova.kube import Resource


class Child(msgspec.Struct, gc=False):
    """An object that the operator makes and only compares: a Service, an autoscaler, a claim."""

    metadata: Metadata
    spec: dict[str, Any] = {}


class Revision(msgspec.Struct, gc=False):
    """A ControllerRevision: the templates of a set as they once were."""

    metadata: Metadata
    revision: int
    data: dict[str, Any] = {}


class Gate(msgspec.Struct, frozen=True, gc=False):
    """What a pod waits for before anybody looks for a node for it."""

    name: str


class Terminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a container ended."""

    exit_code: int = 0


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """How a container is, or was before it started again."""

    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a container is doing."""

    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a pod should be."""

    node_name: str = ""
    scheduling_gates: tuple[Gate, ...] = ()
    restart_policy: str = "Always"


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a pod is doing."""

    phase: str = "Pending"
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, gc=False):
    """A pod of a clique."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


SETS = Resource(
    grove.GROUP, grove.VERSION, "podcliquesets", "PodCliqueSet", True, grove.PodCliqueSet
)
CLIQUES = Resource(grove.GROUP, grove.VERSION, "podcliques", "PodClique", True, grove.PodClique)
GROUPS = Resource(
    grove.GROUP,
    grove.VERSION,
    "podcliquescalinggroups",
    "PodCliqueScalingGroup",
    True,
    grove.PodCliqueScalingGroup,
)
TOPOLOGIES = Resource(
    grove.GROUP,
    grove.VERSION,
    "clustertopologybindings",
    "ClusterTopologyBinding",
    False,
    grove.ClusterTopologyBinding,
)
GANGS = Resource(podgang.GROUP, podgang.VERSION, "podgangs", "PodGang", True, podgang.PodGang)
PODS = Resource("", "v1", "pods", "Pod", True, Pod)
SERVICES = Resource("", "v1", "services", "Service", True, Child)
AUTOSCALERS = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True, Child
)
CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, Child)
CLAIM_TEMPLATES = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True, Child
)
COMPUTE_DOMAINS = Resource(
    "resource.nvidia.com", "v1beta1", "computedomains", "ComputeDomain", True, Child
)
REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", True, Revision)
