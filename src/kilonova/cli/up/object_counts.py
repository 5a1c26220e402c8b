"""Counts of a cluster's nodes and of its pods by phase."""

from collections import Counter
from dataclasses import dataclass

import msgspec

from kilonova.kube import Client, Resource


class NodeCount(msgspec.Struct, frozen=True):
    """Number of nodes, and of ready nodes."""

    total: int
    ready: int


class PodCount(msgspec.Struct, frozen=True):
    """Number of pods, by phase."""

    total: int
    pending: int
    running: int
    succeeded: int
    failed: int
    unknown: int


@dataclass(frozen=True, slots=True)
class ClusterCounts:
    """Nodes and pods, and the resource version at which pods were counted."""

    nodes: NodeCount
    pods: PodCount
    resource_version: int


class _Condition(msgspec.Struct):
    type: str
    status: str


class _NodeStatus(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Node(msgspec.Struct):
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)

    def is_ready(self) -> bool:
        conditions = self.status.conditions or ()
        return any(each.type == "Ready" and each.status == "True" for each in conditions)


class _PodStatus(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


_NODES = Resource("", "v1", "nodes", "Node", False, _Node)
_PHASES = ("pending", "running", "succeeded", "failed")
_PODS = Resource("", "v1", "pods", "Pod", True, _Pod)


async def count_nodes(client: Client) -> NodeCount:
    """Count all nodes and the ready ones."""
    nodes = (await client.list(_NODES)).items
    return NodeCount(len(nodes), sum(node.is_ready() for node in nodes))


async def count_objects(client: Client) -> ClusterCounts:
    """Count nodes, then pods of all namespaces; the resource version is that of the pods."""
    nodes = await count_nodes(client)
    listing = await client.list(_PODS)
    phases = Counter(pod.status.phase for pod in listing.items)
    by_phase = {name: phases[name.capitalize()] for name in _PHASES}
    unknown = phases.total() - sum(by_phase.values())
    pods = PodCount(total=phases.total(), unknown=unknown, **by_phase)
    return ClusterCounts(nodes, pods, int(listing.resource_version))
