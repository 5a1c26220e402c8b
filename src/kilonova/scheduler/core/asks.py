"""What pods ask for. Pods that ask for the same share one `Shape`, and everything that is worked
out about a shape (where it fits, how well) is worked out once for all of them.

All values are frozen and compare by content.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from kilonova.scheduler.core.claims import ClaimAsk
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
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        parts = (
            self.count,
            self.milli,
            self.profile,
            self.memory,
            self.models,
            self.architecture,
            self.preference,
            self.bandwidth,
        )
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash

    @property
    def whole(self) -> bool:
        """Whether it asks for devices that nobody else uses."""
        return self.milli == 1000 and not self.profile


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything about a pod that says where it may stand.

    `requests` are sorted by name and hold whole GPUs too, under the name of their resource. Of
    every list in `one_of` at least one term must hold: the pod's own required affinity is one
    such list, each of its volumes may bring another. Ports of the node are requests too.
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
    claims: tuple[ClaimAsk, ...] = ()
    """Devices that it claims, in the order of `Member.claims`."""
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
            self.claims,
        )
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash


def host_port(port: int, protocol: str, address: str = "") -> dict[str, int]:
    """What it takes to use a port of a node: on all its addresses, all that there is of the port;
    on one address, one of it and the port of that address."""
    name = f"{_PORTS}{protocol}/{port}"
    if address in ("", _ANY_ADDRESS):
        return {name: _ADDRESSES}
    return {name: 1, f"{name}/{address}": 1}


def is_host_port(resource: str) -> bool:
    """Whether a resource is a port of a node."""
    return resource.startswith(_PORTS)


def attachment(driver: str) -> str:
    """Name of the resource that a place for a volume of a driver is."""
    return f"{_ATTACHMENTS}{driver}"


def pool(name: str) -> str:
    """Name of the resource that volumes are which are there and free."""
    return f"{_POOLS}{name}"


def is_pool(resource: str) -> bool:
    """Whether a resource is volumes that are there and free."""
    return resource.startswith(_POOLS)


def implied(resource: str) -> int:
    """How much of a resource every node has that says nothing of it."""
    if resource.startswith(_PORTS):
        return _ADDRESSES if resource.count("/") == 2 else 1
    return _UNLIMITED if resource.startswith(_ATTACHMENTS) else 0


def is_for_queues(resource: str) -> bool:
    """Whether queues share a resource: ports and volumes are matters of single nodes."""
    return not resource.startswith((_PORTS, _ATTACHMENTS, _POOLS))


_PORTS = "port/"
_ATTACHMENTS = "attach/"
_POOLS = "volume/"
_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - it is compared with, nothing is bound to it
_ADDRESSES = 1 << 20
_UNLIMITED = 1 << 40
