"""Gang placement for tests: all required pods or none, packed where required.

Greedy and small, by memory alone. A stand-in for a scheduler that honours PodGangs.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kilonova.api.podgang import PodGang, PodGroup, TopologyConstraint


@dataclass(frozen=True)
class WaitingPod:
    """A pending pod that may be scheduled."""

    name: str
    memory: int


@dataclass
class FreeCapacity:
    """Free memory and labels of the nodes, by name."""

    free: dict[str, int]
    labels: Mapping[str, Mapping[str, str]]

    def copy(self) -> "FreeCapacity":
        return FreeCapacity(dict(self.free), self.labels)

    def allocate(self, memory: int, nodes: Iterable[str]) -> str | None:
        """Allocate memory on the first of the nodes with enough of it."""
        for node in nodes:
            if self.free[node] >= memory:
                self.free[node] -= memory
                return node
        return None


@dataclass
class GangState:
    """A gang with its pending pods and the nodes of the others."""

    gang: PodGang
    waiting: Mapping[str, WaitingPod]
    bound: Mapping[str, str]
    anchor: Sequence[str] = field(default_factory=list[str])
    """Nodes of the gang that this one stands beside."""
    apart: Sequence[str] = field(default_factory=list[str])
    """Nodes of the gangs that this one keeps apart from."""


def place_gang(gang: GangState, capacity: FreeCapacity) -> dict[str, str]:
    """A node for each pod that can start now; empty if the gang as a whole cannot.

    If there is capacity for all listed pods, it is used, else capacity for the required ones.
    """
    spec = gang.gang.spec
    for allowed, whole in itertools.product(_exclude_domains(gang, capacity), (True, False)):
        for nodes in _list_domains(spec.topology_constraint, allowed, capacity, _list_nodes(gang)):
            attempt = capacity.copy()
            found = _place_in_domain(gang, attempt, nodes, whole)
            if found is not None:
                capacity.free = attempt.free
                return found | _place_remaining(gang, capacity, allowed, found)
    return {}


def _exclude_domains(gang: GangState, capacity: FreeCapacity) -> list[list[str]]:
    """The candidate nodes, preferred ones first."""
    nodes, spread = sorted(capacity.free), gang.gang.spec.spread
    if spread is None or gang.bound:
        return [nodes]
    taken = {capacity.labels[node].get(spread.topology_key) for node in gang.apart}
    others = [node for node in nodes if capacity.labels[node].get(spread.topology_key) not in taken]
    return [others] if spread.required else [others, nodes]


def _place_in_domain(
    gang: GangState, capacity: FreeCapacity, nodes: list[str], whole: bool
) -> dict[str, str] | None:
    """Nodes for the required pods."""
    found: dict[str, str] = {}
    for constraint, groups in _list_constraint_groups(gang):
        held = [node for group in groups for node in _list_bound_nodes(gang, group)]
        for inner in _list_domains(constraint, nodes, capacity, held):
            attempt = capacity.copy()
            part = _place_groups(gang, groups, attempt, inner, whole)
            if part is not None:
                capacity.free = attempt.free
                found |= part
                break
        else:
            return None
    return found


def _list_constraint_groups(
    gang: GangState,
) -> list[tuple[TopologyConstraint | None, list[PodGroup]]]:
    """Groups under one constraint, then each of the others alone."""
    spec = gang.gang.spec
    grouped = {
        name for each in spec.topology_constraint_group_configs for name in each.pod_group_names
    }
    return [
        (each.topology_constraint, [g for g in spec.pod_groups if g.name in each.pod_group_names])
        for each in spec.topology_constraint_group_configs
    ] + [(None, [group]) for group in spec.pod_groups if group.name not in grouped]


def _place_groups(
    gang: GangState,
    groups: Sequence[PodGroup],
    capacity: FreeCapacity,
    nodes: list[str],
    whole: bool,
) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for group in groups:
        waiting = _list_waiting(gang, group)
        missing = max(0, group.min_replicas - len(_list_bound_nodes(gang, group)))
        if len(waiting) < missing:
            return None
        for inner in _list_domains(
            group.topology_constraint, nodes, capacity, _list_bound_nodes(gang, group)
        ):
            attempt = capacity.copy()
            wanted = waiting if whole else waiting[:missing]
            part = {pod.name: attempt.allocate(pod.memory, inner) for pod in wanted}
            if None not in part.values() and not (
                whole and _place_missing(gang, group, attempt, inner)
            ):
                capacity.free = attempt.free
                found |= {name: node for name, node in part.items() if node is not None}
                break
        else:
            return None
    return found


def _place_missing(
    gang: GangState, group: PodGroup, capacity: FreeCapacity, nodes: list[str]
) -> bool:
    """Whether listed pods that do not exist yet would find no capacity."""
    waiting = _list_waiting(gang, group)
    missing = len(group.pod_references) - len(waiting) - len(_list_bound_nodes(gang, group))
    left = capacity.copy()
    return bool(waiting) and None in [
        left.allocate(waiting[0].memory, nodes) for _ in range(missing)
    ]


def _place_remaining(
    gang: GangState, capacity: FreeCapacity, nodes: list[str], found: Mapping[str, str]
) -> dict[str, str]:
    """Nodes for pods beyond the required ones, in the same domains."""
    more: dict[str, str] = {}
    all_pods = [*_list_nodes(gang), *found.values()]
    for constraint, groups in _list_constraint_groups(gang):
        held = {group.name: _count_placed(gang, group, found) for group in groups}
        anchor_nodes = [node for each in held.values() for node in each]
        choices = [
            (group, inner)
            for group in groups
            for whole in _list_domains(
                gang.gang.spec.topology_constraint, nodes, capacity, all_pods
            )
            for outer in _list_domains(constraint, whole, capacity, anchor_nodes)
            for inner in _list_domains(group.topology_constraint, outer, capacity, held[group.name])
        ]
        for group, inner in choices:
            for pod in _list_waiting(gang, group):
                taken = pod.name in found or pod.name in more
                if not taken and (node := capacity.allocate(pod.memory, inner)):
                    more[pod.name] = node
    return more


def _count_placed(gang: GangState, group: PodGroup, found: Mapping[str, str]) -> list[str]:
    new = [found[each.name] for each in group.pod_references if each.name in found]
    return [*_list_bound_nodes(gang, group), *new]


def _list_waiting(gang: GangState, group: PodGroup) -> list[WaitingPod]:
    names = [each.name for each in group.pod_references]
    return [gang.waiting[name] for name in names if name in gang.waiting]


def _list_bound_nodes(gang: GangState, group: PodGroup) -> list[str]:
    names = [each.name for each in group.pod_references]
    return [gang.bound[name] for name in names if name in gang.bound]


def _list_nodes(gang: GangState) -> list[str]:
    return [*gang.bound.values(), *gang.anchor]


def _list_domains(
    constraint: TopologyConstraint | None,
    nodes: list[str],
    capacity: FreeCapacity,
    held: Sequence[str],
) -> list[list[str]]:
    """The candidate domains, as lists of nodes: the one in use, or each."""
    pack = constraint.pack_constraint if constraint else None
    if pack is None:
        return [nodes]
    outer = _split_by_domain(pack.required, nodes, capacity, held) if pack.required else [nodes]
    if not pack.preferred:
        return outer
    return [
        part
        for each in outer
        for part in (*_split_by_domain(pack.preferred, each, capacity, held), each)
    ]


def _split_by_domain(
    key: str, nodes: list[str], capacity: FreeCapacity, held: Sequence[str]
) -> list[list[str]]:
    by_domain: dict[str, list[str]] = {}
    for node in nodes:
        by_domain.setdefault(capacity.labels[node].get(key, ""), []).append(node)
    by_domain.pop("", None)
    if not held:
        return list(by_domain.values())
    return [by_domain.pop(capacity.labels[held[0]].get(key, ""), [])]
