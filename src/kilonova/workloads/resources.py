"""The API resources that the operator reads and writes, with the fields that it uses."""

from typing import Any

import msgspec

from kilonova.api import grove, podgang
from kilonova.api.meta import Condition, Metadata
from kilonova.kube import Resource


class ChildObject(msgspec.Struct, gc=False):
    """An object that the operator writes and only compares: a Service, an autoscaler, a claim."""

    metadata: Metadata
    spec: dict[str, Any] = {}


class PodSchedulingGate(msgspec.Struct, frozen=True, gc=False):
    """A scheduling gate of a pod."""

    name: str


class ContainerStateTerminated(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A terminated container."""

    exit_code: int = 0


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """The state of a container, or its state before the last restart."""

    terminated: ContainerStateTerminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a container."""

    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a pod."""

    node_name: str = ""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    restart_policy: str = "Always"


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a pod."""

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
SCALING_GROUPS = Resource(
    grove.GROUP,
    grove.VERSION,
    "podcliquescalinggroups",
    "PodCliqueScalingGroup",
    True,
    grove.PodCliqueScalingGroup,
)
TOPOLOGY_BINDINGS = Resource(
    grove.GROUP,
    grove.VERSION,
    "clustertopologybindings",
    "ClusterTopologyBinding",
    False,
    grove.ClusterTopologyBinding,
)
GANGS = Resource(podgang.GROUP, podgang.VERSION, "podgangs", "PodGang", True, podgang.PodGang)
PODS = Resource("", "v1", "pods", "Pod", True, Pod)
SERVICES = Resource("", "v1", "services", "Service", True, ChildObject)
AUTOSCALERS = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True, ChildObject
)
RESOURCE_CLAIMS = Resource(
    "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True, ChildObject
)
RESOURCE_CLAIM_TEMPLATES = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True, ChildObject
)
COMPUTE_DOMAINS = Resource(
    "resource.nvidia.com", "v1beta1", "computedomains", "ComputeDomain", True, ChildObject
)
