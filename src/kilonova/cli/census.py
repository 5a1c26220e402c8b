"""Counting what a cluster has: its nodes, and its pods by phase."""

from collections import Counter
from dataclasses import dataclass

import msgspec

from kilonova.kube import Client, Resource


class NodeCount(msgspec.Struct, frozen=True):
    """How many nodes there are, and how many of them say that they are ready."""

    total: int
    ready: int


class PodCount(msgspec.Struct, frozen=True):
    """How many pods there are, and in which phase."""

    total: int
    pending: int
    running: int
    succeeded: int
    failed: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Census:
    """What was counted, and the version of the cluster at which it was."""

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
        return any(one.type == "Ready" and one.status == "True" for one in conditions)


class _PodStatus(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


_NODES = Resource("", "v1", "nodes", "Node", False, _Node)
_PHASES = ("pending", "running", "succeeded", "failed")
_PODS = Resource("", "v1", "pods", "Pod", True, _Pod)


async def count_nodes(client: Client) -> NodeCount:
    """All nodes, and those that are ready."""
    nodes = (await client.list(_NODES)).items
    return NodeCount(len(nodes), sum(node.is_ready() for node in nodes))


async def take_census(client: Client) -> Census:
    """Nodes, then pods of all namespaces; the version is that of the pods."""
    nodes = await count_nodes(client)
    pods = await client.list(_PODS)
    phases = Counter(pod.status.phase for pod in pods.items)
    known = {name: phases[name.capitalize()] for name in _PHASES}
    unknown = phases.total() - sum(known.values())
    count = PodCount(total=phases.total(), unknown=unknown, **known)
    return Census(nodes, count, int(pods.resource_version))
