"""What pods request. Equal pods share one `Shape`, and everything computed for a shape (feasible
nodes, scores) is computed once for all of them.

All values are frozen and compare by content.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from kilonova.scheduler.core.dra.claims import ClaimRequest
from kilonova.scheduler.core.model.pod_affinity import PodAffinityRules
from kilonova.scheduler.core.model.requirements import NodeSelectorTerm
from kilonova.scheduler.core.model.taints import Toleration


class GpuPreference(StrEnum):
    """Preferred topology of the GPUs of one pod within a node."""

    NONE = "None"
    NVLINK_OPTIMAL = "NVLinkOptimal"
    NVLINK_REQUIRED = "NVLinkRequired"
    SAME_NUMA = "SameNUMA"
    SAME_PCIE_SWITCH = "SamePCIeSwitch"


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """GPUs of one pod: `count` devices with the share `milli` of each, or `count` MIG instances.

    `memory` (MiB) is the minimum that each device must have. `share_memory` (MiB) is the memory of
    a share; where it is 0, the memory is the same fraction of the device as `milli`. Where `milli`
    is 0, the share is the fraction of the device that holds this memory, or else `memory`. `models`
    and `architecture` are compared ignoring case; any of the models will do.
    """

    count: int
    milli: int = 1000
    profile: str = ""
    memory: int = 0
    models: tuple[str, ...] = ()
    architecture: str = ""
    preference: GpuPreference = GpuPreference.NONE
    bandwidth: int = 0
    share_memory: int = 0
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
            self.share_memory,
        )
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash

    @property
    def is_whole(self) -> bool:
        """Whether it requests devices that no other pod uses."""
        return self.milli == 1000 and not self.profile


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything about a pod that decides on which nodes it fits.

    `requests` are sorted by name and include whole GPUs, under the name of their resource, and host
    ports. Of every list in `required_node_terms` at least one term must match: the pod's required
    node affinity is one such list, each of its volumes may add another.
    """

    requests: tuple[tuple[str, int], ...] = ()
    gpu: GpuRequest | None = None
    node_selector: tuple[tuple[str, str], ...] = ()
    required_node_terms: tuple[tuple[NodeSelectorTerm, ...], ...] = ()
    preferred_node_terms: tuple[tuple[int, NodeSelectorTerm], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    avoided_nodes: frozenset[str] = frozenset()
    """Names of nodes to avoid because this workload failed there."""
    pod_rules: PodAffinityRules | None = None
    """Affinity, anti-affinity and spread constraints."""
    claims: tuple[ClaimRequest, ...] = ()
    """Devices that it claims, in the order of `Member.claims`."""
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        parts = (
            self.requests,
            self.gpu,
            self.node_selector,
            self.required_node_terms,
            self.preferred_node_terms,
            self.tolerations,
            self.avoided_nodes,
            self.pod_rules,
            self.claims,
        )
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash


def host_port_requests(port: int, protocol: str, address: str = "") -> dict[str, int]:
    """Requests for a host port: on all addresses, the whole capacity of the port; on one address,
    one unit of it and the port of that address."""
    name = f"{_PORT_PREFIX}{protocol}/{port}"
    if address in ("", _ANY_ADDRESS):
        return {name: _ALL_ADDRESSES}
    return {name: 1, f"{name}/{address}": 1}


def is_host_port(resource: str) -> bool:
    """Whether a resource is a host port."""
    return resource.startswith(_PORT_PREFIX)


def attachment_resource(driver: str) -> str:
    """Name of the resource that counts volume attachments of a driver."""
    return f"{_ATTACHMENT_PREFIX}{driver}"


def volume_pool_resource(name: str) -> str:
    """Name of the resource that counts available volumes of a pool."""
    return f"{_VOLUME_POOL_PREFIX}{name}"


def is_volume_pool(resource: str) -> bool:
    """Whether a resource counts available volumes."""
    return resource.startswith(_VOLUME_POOL_PREFIX)


def implied_allocatable(resource: str) -> int:
    """How much of a resource a node has that does not list it."""
    if resource.startswith(_PORT_PREFIX):
        return _ALL_ADDRESSES if resource.count("/") == 2 else 1
    return _UNLIMITED if resource.startswith(_ATTACHMENT_PREFIX) else 0


def is_queue_resource(resource: str) -> bool:
    """Whether a resource is charged to queues: host ports and volumes are limits of single
    nodes."""
    return not resource.startswith((_PORT_PREFIX, _ATTACHMENT_PREFIX, _VOLUME_POOL_PREFIX))


_PORT_PREFIX = "port/"
_ATTACHMENT_PREFIX = "attach/"
_VOLUME_POOL_PREFIX = "volume/"
_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - it is compared with, nothing is bound to it
_ALL_ADDRESSES = 1 << 20
_UNLIMITED = 1 << 40
