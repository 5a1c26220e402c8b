"""What pods ask for. Pods that ask for the same share one `Shape`, and everything that is worked
out about a shape (where it fits, how well) is worked out once for all of them.

All values are frozen and compare by content.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from kilonova.scheduler.core.peers import Peers
from kilonova.scheduler.core.requirements import NodeTerm
from kilonova.scheduler.core.taints import Toleration


class Preference(StrEnum):
    """How the GPUs of one pod should stand to each other inside a node."""

    NONE = "None"
    NVLINK_OPTIMAL = "NVLinkOptimal"
    NVLINK_REQUIRED = "NVLinkRequired"
    SAME_NUMA = "SameNUMA"
    SAME_PCIE_SWITCH = "SamePCIeSwitch"


@dataclass(frozen=True, slots=True)
class GpuAsk:
    """GPUs of one pod: `count` devices, of each the share `milli`, or `count` MIG instances.

    `memory` (MiB) is the least that each device must have; where `milli` is 0 the share is so
    much of the device as holds that memory. `model` and `architecture` are compared without case;
    several models may be named.
    """

    count: int
    milli: int = 1000
    profile: str = ""
    memory: int = 0
    models: tuple[str, ...] = ()
    architecture: str = ""
    preference: Preference = Preference.NONE
    bandwidth: int = 0

    @property
    def whole(self) -> bool:
        """Whether it asks for devices that nobody else uses."""
        return self.milli == 1000 and not self.profile


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything about a pod that says where it may stand.

    `requests` are sorted by name and hold whole GPUs too, under the name of their resource. Of
    every list in `one_of` at least one term must hold: the pod's own required affinity is one
    such list, each of its volumes may bring another. A `HostPort` is a request of one of a
    resource that every node has once.
    """

    requests: tuple[tuple[str, int], ...] = ()
    gpu: GpuAsk | None = None
    selector: tuple[tuple[str, str], ...] = ()
    one_of: tuple[tuple[NodeTerm, ...], ...] = ()
    preferred: tuple[tuple[int, NodeTerm], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    avoided: frozenset[str] = frozenset()
    """Names of nodes on which this workload failed."""
    peers: Peers | None = None
    """What it wants of the pods around it."""
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        parts = (
            self.requests,
            self.gpu,
            self.selector,
            self.one_of,
            self.preferred,
            self.tolerations,
            self.avoided,
            self.peers,
        )
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash


def host_port(port: int, protocol: str) -> str:
    """Name of the resource that a port of the node is: each node has one of it."""
    return f"{_PORTS}{protocol}/{port}"


def is_host_port(resource: str) -> bool:
    """Whether a resource is a port, of which every node has one."""
    return resource.startswith(_PORTS)


_PORTS = "port/"
