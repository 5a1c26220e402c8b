"""The Nodes of simulated machines as the simulation reads them."""

import msgspec
from msgspec.structs import force_setattr

from kilonova.api.meta import intern_value
from kilonova.api.nodes.simulated_faults import ANNOTATION_PREFIX
from kilonova.api.nodes.topology_labels import BLOCK, RACK, ZONE
from kilonova.kube import Resource

MACHINE_ANNOTATION = ANNOTATION_PREFIX + "machine"
"""What the machine is like: fields of a group of a fleet file, as JSON or YAML."""
FLEET_ANNOTATION = ANNOTATION_PREFIX + "fleet"
"""The group of the fleet that created the Node; absent for others."""
NUMBER_ANNOTATION = ANNOTATION_PREFIX + "number"
"""The number of the machine, from which its addresses follow; set when it is launched."""
INTERRUPTION_ANNOTATION = ANNOTATION_PREFIX + "interruption"
"""`true` announces an interruption; then it is the time at which the machine is taken back."""

MACHINE_TYPE_LABEL = "node.kubernetes.io/instance-type"
MARKET_LABEL = "karpenter.sh/capacity-type"

BOOTING = "Booting"
INSUFFICIENT_CAPACITY = "InsufficientCapacity"
INVALID_DESCRIPTION = "InvalidDescription"


class NodeLabels(msgspec.Struct, frozen=True, gc=False):
    """The labels that describe a machine."""

    machine: str = msgspec.field(default="", name=MACHINE_TYPE_LABEL)
    market: str = msgspec.field(default="", name=MARKET_LABEL)
    zone: str = msgspec.field(default="", name=ZONE)
    block: str = msgspec.field(default="", name=BLOCK)
    rack: str = msgspec.field(default="", name=RACK)

    def __post_init__(self) -> None:
        for name in ("machine", "market", "zone", "block", "rack"):
            force_setattr(self, name, intern_value(getattr(self, name)))


class NodeMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata of a Node."""

    name: str
    uid: str
    resource_version: str
    creation_timestamp: str = ""
    labels: NodeLabels = NodeLabels()
    annotations: dict[str, str] = {}

    def __post_init__(self) -> None:
        interned = {name: intern_value(value) for name, value in self.annotations.items()}
        force_setattr(self, "annotations", interned)


class NodeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Spec of a Node."""

    pod_cidr: str = msgspec.field(default="", name="podCIDR")
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeCondition(msgspec.Struct, frozen=True, gc=False):
    """A condition, without its times."""

    type: str
    status: str
    reason: str = ""


class NodeInfo(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a booted machine reports of itself."""

    machine_id: str = msgspec.field(default="", name="machineID")


class NodeStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Status of a Node; of its conditions only Ready is kept."""

    conditions: tuple[NodeCondition, ...] = ()
    node_info: NodeInfo = NodeInfo()

    def __post_init__(self) -> None:
        kept = tuple(each for each in self.conditions if each.type == "Ready")
        force_setattr(self, "conditions", kept)


class SimulatedNode(msgspec.Struct, frozen=True):
    """A Node of a simulated machine."""

    metadata: NodeMetadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_booted(self) -> bool:
        """Whether the machine has reported its status."""
        return bool(self.status.node_info.machine_id)

    @property
    def is_launched(self) -> bool:
        """Whether there was capacity for the machine."""
        return NUMBER_ANNOTATION in self.metadata.annotations

    @property
    def ready(self) -> NodeCondition:
        """Its Ready condition; Unknown if it has none."""
        return self.status.conditions[0] if self.status.conditions else _NO_CONDITION

    @property
    def interruption(self) -> str:
        """The value of the annotation that announces an interruption."""
        return self.metadata.annotations.get(INTERRUPTION_ANNOTATION, "")


_NO_CONDITION = NodeCondition("Ready", "Unknown")

NODES = Resource("", "v1", "nodes", "Node", False, SimulatedNode)
