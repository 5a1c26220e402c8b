"""Nodes and pods as the node agent reads them."""

from collections.abc import Mapping
from functools import lru_cache

import msgspec
from msgspec.structs import force_setattr

from kilonova.api.gpu.annotations import AGENT, DEVICES, TOPOLOGY
from kilonova.api.gpu.health import HEALTH
from kilonova.api.gpu.mig_strategy import MIG_STRATEGY
from kilonova.api.kgwe import GROUP, VERSION
from kilonova.api.meta import Condition, intern_value
from kilonova.api.nodes.simulated_faults import LOST_GPUS_ANNOTATION, XID_ANNOTATION
from kilonova.kube import Resource

Limits = Mapping[str, str | int | float]
_LABEL_PREFIXES = ("nvidia.com/", "kilonova.dev/node-kind")


class NodeAnnotations(msgspec.Struct, frozen=True, gc=False):
    """The annotations of a Node that its agent writes or heeds."""

    topology: str = msgspec.field(default="", name=TOPOLOGY)
    agent: str = msgspec.field(default="", name=AGENT)
    health: str = msgspec.field(default="", name=HEALTH)
    strategy: str = msgspec.field(default="", name=MIG_STRATEGY)
    lost_gpus: str = msgspec.field(default="", name=LOST_GPUS_ANNOTATION)
    xid: str = msgspec.field(default="", name=XID_ANNOTATION)


class NodeMetadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Metadata of a Node, of its labels those of GPUs."""

    name: str
    uid: str
    resource_version: str
    labels: dict[str, str] = {}
    annotations: NodeAnnotations = NodeAnnotations()

    def __post_init__(self) -> None:
        kept = {
            intern_value(name): intern_value(value)
            for name, value in self.labels.items()
            if name.startswith(_LABEL_PREFIXES)
        }
        force_setattr(self, "labels", kept)


class Taint(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Repels pods that do not tolerate it."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """Spec of a Node."""

    taints: tuple[Taint, ...] = ()


class NodeInfo(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What the node reports of its machine."""

    boot_id: str = msgspec.field(default="", name="bootID")


class NodeStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Status of a Node."""

    conditions: tuple[Condition, ...] = ()
    capacity: dict[str, str | int | float] = {}
    allocatable: dict[str, str | int | float] = {}
    node_info: NodeInfo = NodeInfo()

    def __post_init__(self) -> None:
        for name in ("capacity", "allocatable"):
            amounts = getattr(self, name)
            kept = {key: each for key, each in amounts.items() if key.startswith("nvidia.com/")}
            force_setattr(self, name, kept)
        kept = tuple(each for each in self.conditions if each.type.startswith(("GPU", "MIG")))
        force_setattr(self, "conditions", kept)


class Node(msgspec.Struct, frozen=True):
    """A Node, with what concerns its GPUs."""

    metadata: NodeMetadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class PodAnnotations(msgspec.Struct, frozen=True, gc=False):
    """The annotations of a pod that concern its GPUs."""

    devices: str = msgspec.field(default="", name=DEVICES)


class PodMetadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Metadata of a pod."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    annotations: PodAnnotations = PodAnnotations()
    deletion_timestamp: str | None = None


class ContainerClaim(msgspec.Struct, frozen=True, gc=False):
    """A claim of its pod that a container uses, or one request of it."""

    name: str = ""
    request: str = ""


class ContainerResources(msgspec.Struct, frozen=True, gc=False):
    """What a container requests, of resources those of GPUs."""

    limits: Limits = {}
    claims: tuple[ContainerClaim, ...] = ()

    def __post_init__(self) -> None:
        kept = [each for each in self.limits.items() if each[0].startswith("nvidia.com/")]
        force_setattr(self, "limits", _share_limits(tuple(kept)))


@lru_cache(maxsize=256)
def _share_limits(limits: tuple[tuple[str, str | int | float], ...]) -> Limits:
    """One mapping for all containers with the same limits: most of a workload's are alike."""
    return dict(limits)


class Container(msgspec.Struct, frozen=True, gc=False):
    """A container of a pod."""

    name: str = ""
    resources: ContainerResources = ContainerResources()

    @property
    def requests_devices(self) -> bool:
        """Whether it requests GPUs, or parts of them, as resources."""
        return bool(self.resources.limits)


class PodClaim(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A ResourceClaim of a pod: of that name, or made for the pod from a template."""

    name: str = ""
    resource_claim_name: str | None = None


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Spec of a pod."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    resource_claims: tuple[PodClaim, ...] = ()


class AllocatedDevice(msgspec.Struct, frozen=True, gc=False):
    """A device that the kubelet reports as allocated to a container."""

    id: str = msgspec.field(default="", name="resourceID")


class AllocatedResource(msgspec.Struct, frozen=True, gc=False):
    """The devices of one resource."""

    name: str = ""
    resources: tuple[AllocatedDevice, ...] | None = None


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Status of a container."""

    allocated_resources_status: tuple[AllocatedResource, ...] | None = None


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Status of a pod."""

    phase: str = "Pending"
    resource_claim_statuses: tuple[PodClaim, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, frozen=True, gc=False):
    """A pod, with what concerns its GPUs."""

    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def holds_devices(self) -> bool:
        """Whether it is bound and has not ended."""
        return bool(self.spec.node_name) and self.status.phase not in ("Succeeded", "Failed")


class ObjectName(msgspec.Struct, frozen=True, gc=False):
    """Metadata of an object of which only the name is read."""

    name: str


class NodeSelection(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Which nodes a MIGStrategy is for."""

    node_selector: dict[str, str] = {}


class StrategySelector(msgspec.Struct, frozen=True, gc=False):
    """A MIGStrategy, of which only the selected nodes are read."""

    metadata: ObjectName
    spec: NodeSelection = NodeSelection()

    def selects(self, labels: Mapping[str, str | None]) -> bool:
        """Whether it is for nodes with these labels."""
        return all(labels.get(key) == value for key, value in self.spec.node_selector.items())


class AllLabels(msgspec.Struct, frozen=True, gc=False):
    """All labels of an object."""

    labels: dict[str, str] = {}


class LabeledNode(msgspec.Struct, frozen=True, gc=False):
    """A Node with all of its labels."""

    metadata: AllLabels


NODES = Resource("", "v1", "nodes", "Node", False, Node)
NODE_LABELS = Resource("", "v1", "nodes", "Node", False, LabeledNode)
STRATEGY_SELECTORS = Resource(
    GROUP, VERSION, "migstrategies", "MIGStrategy", False, StrategySelector
)
PODS = Resource("", "v1", "pods", "Pod", True, Pod)
