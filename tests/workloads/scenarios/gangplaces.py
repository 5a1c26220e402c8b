"""Places for gangs, for tests: all that must start together or nothing, packed where required.

Greedy and small, on memory alone. It stands in for a scheduler that honours PodGangs.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kilonova.api.podgang import PodGang, PodGroup, TopologyConstraint


@dataclass(frozen=True)
class Candidate:
    """A pod that has no node yet and may have one."""

    name: str
    memory: int


@dataclass
class Room:
    """What is free on the nodes, by name, and their labels."""

    free: dict[str, int]
    labels: Mapping[str, Mapping[str, str]]

    def copy(self) -> "Room":
        return Room(dict(self.free), self.labels)

    def take(self, memory: int, nodes: Iterable[str]) -> str | None:
        """The first of the nodes with so much room; it has less from now on."""
        for node in nodes:
            if self.free[node] >= memory:
                self.free[node] -= memory
                return node
        return None


@dataclass
class Gang:
    """A gang, the pods of it that wait, and where the others are."""

    gang: PodGang
    waiting: Mapping[str, Candidate]
    bound: Mapping[str, str]
    anchor: Sequence[str] = field(default_factory=list[str])
    """Nodes of the gang that this one stands beside."""
    apart: Sequence[str] = field(default_factory=list[str])
    """Nodes of the gangs that this one keeps apart from."""


def places(gang: Gang, room: Room) -> dict[str, str]:
    """A node for each pod that can start now; empty if the gang as a whole cannot.

    Where there is room for all pods that the gang lists, it is taken, else where those that must
    start have room.
    """
    spec = gang.gang.spec
    for allowed, whole in itertools.product(_apart(gang, room), (True, False)):
        for nodes in _domains(spec.topology_constraint, allowed, room, _nodes_of(gang)):
            attempt = room.copy()
            found = _together(gang, attempt, nodes, whole)
            if found is not None:
                room.free = attempt.free
                return found | _the_rest(gang, room, allowed, found)
    return {}


def _apart(gang: Gang, room: Room) -> list[list[str]]:
    """The nodes that may be tried, the better ones first."""
    nodes, spread = sorted(room.free), gang.gang.spec.spread
    if spread is None or gang.bound:
        return [nodes]
    taken = {room.labels[node].get(spread.topology_key) for node in gang.apart}
    others = [node for node in nodes if room.labels[node].get(spread.topology_key) not in taken]
    return [others] if spread.required else [others, nodes]


def _together(gang: Gang, room: Room, nodes: list[str], whole: bool) -> dict[str, str] | None:
    """Nodes for what must start together."""
    found: dict[str, str] = {}
    for constraint, groups in _units(gang):
        held = [node for group in groups for node in _bound(gang, group)]
        for inner in _domains(constraint, nodes, room, held):
            attempt = room.copy()
            part = _groups(gang, groups, attempt, inner, whole)
            if part is not None:
                room.free = attempt.free
                found |= part
                break
        else:
            return None
    return found


def _units(gang: Gang) -> list[tuple[TopologyConstraint | None, list[PodGroup]]]:
    """Groups under one constraint, then each of the others alone."""
    spec = gang.gang.spec
    grouped = {
        name for each in spec.topology_constraint_group_configs for name in each.pod_group_names
    }
    return [
        (each.topology_constraint, [g for g in spec.pod_groups if g.name in each.pod_group_names])
        for each in spec.topology_constraint_group_configs
    ] + [(None, [group]) for group in spec.pod_groups if group.name not in grouped]


def _groups(
    gang: Gang, groups: Sequence[PodGroup], room: Room, nodes: list[str], whole: bool
) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for group in groups:
        waiting = _waiting(gang, group)
        missing = max(0, group.min_replicas - len(_bound(gang, group)))
        if len(waiting) < missing:
            return None
        for inner in _domains(group.topology_constraint, nodes, room, _bound(gang, group)):
            attempt = room.copy()
            wanted = waiting if whole else waiting[:missing]
            part = {pod.name: attempt.take(pod.memory, inner) for pod in wanted}
            if None not in part.values() and not (whole and _lacks(gang, group, attempt, inner)):
                room.free = attempt.free
                found |= {name: node for name, node in part.items() if node is not None}
                break
        else:
            return None
    return found


def _lacks(gang: Gang, group: PodGroup, room: Room, nodes: list[str]) -> bool:
    """Whether pods that are listed and not there yet would have no room."""
    waiting = _waiting(gang, group)
    missing = len(group.pod_references) - len(waiting) - len(_bound(gang, group))
    left = room.copy()
    return bool(waiting) and None in [left.take(waiting[0].memory, nodes) for _ in range(missing)]


def _the_rest(gang: Gang, room: Room, nodes: list[str], found: Mapping[str, str]) -> dict[str, str]:
    """Nodes for pods beyond those that must start, in the domains where these are."""
    more: dict[str, str] = {}
    everyone = [*_nodes_of(gang), *found.values()]
    for constraint, groups in _units(gang):
        held = {group.name: _placed(gang, group, found) for group in groups}
        beside = [node for each in held.values() for node in each]
        choices = [
            (group, inner)
            for group in groups
            for whole in _domains(gang.gang.spec.topology_constraint, nodes, room, everyone)
            for outer in _domains(constraint, whole, room, beside)
            for inner in _domains(group.topology_constraint, outer, room, held[group.name])
        ]
        for group, inner in choices:
            for pod in _waiting(gang, group):
                taken = pod.name in found or pod.name in more
                if not taken and (node := room.take(pod.memory, inner)):
                    more[pod.name] = node
    return more


def _placed(gang: Gang, group: PodGroup, found: Mapping[str, str]) -> list[str]:
    new = [found[each.name] for each in group.pod_references if each.name in found]
    return [*_bound(gang, group), *new]


def _waiting(gang: Gang, group: PodGroup) -> list[Candidate]:
    names = [each.name for each in group.pod_references]
    return [gang.waiting[name] for name in names if name in gang.waiting]


def _bound(gang: Gang, group: PodGroup) -> list[str]:
    names = [each.name for each in group.pod_references]
    return [gang.bound[name] for name in names if name in gang.bound]


def _nodes_of(gang: Gang) -> list[str]:
    return [*gang.bound.values(), *gang.anchor]


def _domains(
    constraint: TopologyConstraint | None, nodes: list[str], room: Room, held: Sequence[str]
) -> list[list[str]]:
    """The domains that may be tried, as lists of nodes: the one held already, or each."""
    pack = constraint.pack_constraint if constraint else None
    if pack is None:
        return [nodes]
    outer = _split(pack.required, nodes, room, held) if pack.required else [nodes]
    if not pack.preferred:
        return outer
    return [part for each in outer for part in (*_split(pack.preferred, each, room, held), each)]


def _split(key: str, nodes: list[str], room: Room, held: Sequence[str]) -> list[list[str]]:
    by_domain: dict[str, list[str]] = {}
    for node in nodes:
        by_domain.setdefault(room.labels[node].get(key, ""), []).append(node)
    by_domain.pop("", None)
    if not held:
        return list(by_domain.values())
    return [by_domain.pop(room.labels[held[0]].get(key, ""), [])]
