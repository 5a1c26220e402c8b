"""The accelerators of a cluster as they are shown: where each is, who holds it, what is wrong.

What a node has is in `accelerators`. Pure.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kilonova.catalog.resource_names import GPU
from kilonova.instances.fit.accelerators import (
    Accelerator,
    NodePods,
    mark_next,
    view_accelerators,
)
from kilonova.instances.fit.claimed_gpus import find_claimed_gpus
from kilonova.instances.fit.holders import Holder
from kilonova.instances.fit.natural_order import natural_key
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.library.copies import CopyPod
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.library.topology_levels import (
    DomainPath,
    common_domain,
    domain_path,
    find_topology_levels,
    format_domain,
)

_NODE_STATES = {
    "node.kubernetes.io/not-ready": "NotReady",
    "node.kubernetes.io/unreachable": "Unreachable",
    "node.kubernetes.io/unschedulable": "Cordoned",
}
_HOST = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with accelerators, by index."""

    name: str
    domain: DomainPath
    states: tuple[str, ...]
    """NotReady, Unreachable, Cordoned; empty for a node to which pods may be bound."""
    accelerators: tuple[Accelerator, ...]
    annotation: str = ""


@dataclass(frozen=True, slots=True)
class HolderView:
    """What a holder has."""

    holder: Holder
    accelerators: int
    """Those of which it has most."""
    nodes: int
    domain: str
    """The smallest domain with all its nodes, as a path."""


@dataclass(frozen=True, slots=True)
class TopologyView:
    """The accelerators of a cluster. Nodes are in the order of their domains and names, holders by
    the number of their accelerators."""

    resource: str
    levels: tuple[str, ...]
    """Keys of node labels, broadest first."""
    nodes: tuple[NodeView, ...]
    holders: tuple[HolderView, ...]
    other_nodes: int
    """Nodes without accelerators."""
    annotations: Mapping[str, str]
    """What plug-ins report of domains, by path."""


def view_topology(
    cluster_snapshot: ClusterSnapshot,
    resource: str = GPU,
    levels: Sequence[str] = (),
    next_copy: Iterable[CopyPod] = (),
) -> TopologyView:
    """The accelerators in a snapshot. Without `levels`, those of the scheduler, of the cluster's
    ClusterTopologyBinding, or those that nodes have."""
    nodes = cluster_snapshot.nodes
    used_levels = tuple(levels) or _find_levels(cluster_snapshot)
    placed: dict[int, list[PodPlacement]] = defaultdict(list)
    for placement in cluster_snapshot.placements:
        placed[placement.row].append(placement)
    wanted: dict[str, list[CopyPod]] = defaultdict(list)
    for pod in next_copy:
        wanted[pod.node].append(pod)
    claimed = find_claimed_gpus(cluster_snapshot)
    views: list[NodeView] = []
    for row, node in enumerate(nodes):
        states = _find_states(node)
        held = NodePods(placed[row], claimed.get(node.name, ()) if resource == GPU else ())
        found = view_accelerators(node, resource, held, is_schedulable=not states)
        if found:
            marked = mark_next(found, resource, wanted.get(node.name, ()))
            path = domain_path(node.labels, used_levels)
            views.append(NodeView(node.name, path, states, tuple(marked)))
    views.sort(key=lambda each: (*map(natural_key, each.domain), natural_key(each.name)))
    others = len(nodes) - len(views)
    return TopologyView(resource, used_levels, tuple(views), _view_holders(views), others, {})


def select_domains(view: TopologyView, domains: Sequence[str]) -> TopologyView:
    """The nodes of some domains, by name or path: `rack-2`, `zone-a/block-1`."""
    nodes = [node for node in view.nodes if any(_is_in(node.domain, each) for each in domains)]
    return replace(view, nodes=tuple(nodes), holders=_view_holders(nodes), other_nodes=0)


def list_resources(cluster_snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """The extended resources that nodes offer, sorted."""
    return tuple(
        sorted(
            {
                name
                for node in cluster_snapshot.nodes
                for name, amount in node.allocatable.items()
                if amount > 0 and _is_accelerator_resource(name)
            }
        )
    )


def _is_accelerator_resource(name: str) -> bool:
    domain, slash, _ = name.partition("/")
    return bool(slash) and "." in domain and not domain.endswith("kubernetes.io")


def _find_levels(cluster_snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """Levels above nodes, of which any node has the label."""
    known: set[str] = set()
    for node in cluster_snapshot.nodes:
        known.update(node.labels)
    levels = cluster_snapshot.policy.levels or cluster_snapshot.topology_levels
    present = tuple(each for each in levels if each in known and each != _HOST)
    return present or find_topology_levels([dict.fromkeys(known, "")])


def _is_in(path: DomainPath, domain: str) -> bool:
    names = [name for name in path if name]
    parts = domain.strip("/").split("/")
    starts = range(len(names) - len(parts) + 1)
    return any(names[start : start + len(parts)] == parts for start in starts)


def _find_states(node: Node) -> tuple[str, ...]:
    found = {_NODE_STATES[taint.key] for taint in node.taints if taint.key in _NODE_STATES}
    return tuple(sorted(found, reverse=True))


def _view_holders(nodes: Iterable[NodeView]) -> tuple[HolderView, ...]:
    accelerators: dict[Holder, int] = defaultdict(int)
    held_nodes: dict[Holder, list[NodeView]] = defaultdict(list)
    for node in nodes:
        for each in node.accelerators:
            if each.holder is not None:
                accelerators[each.holder] += 1
                if not held_nodes[each.holder] or held_nodes[each.holder][-1] is not node:
                    held_nodes[each.holder].append(node)
    views = [
        HolderView(
            holder,
            count,
            len(held_nodes[holder]),
            format_domain(common_domain(node.domain for node in held_nodes[holder])),
        )
        for holder, count in accelerators.items()
    ]
    return tuple(
        sorted(views, key=lambda each: (-each.accelerators, each.holder.name, each.holder.kind))
    )
