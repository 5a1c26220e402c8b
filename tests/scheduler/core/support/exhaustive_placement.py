"""Whether a gang can be placed at all: every choice of nodes and devices is tried. For small
clusters only. Uses nothing of the placement code."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.requests import Shape, implied_allocatable
from kilonova.scheduler.core.model.snapshot import Snapshot
from tests.scheduler.core.support.reference_model import devices_on, used_on

Free = tuple[tuple[int, ...], tuple[int, ...]]
"""What is left of a node: of each resource, and of each device in ascending order."""


@dataclass(frozen=True)
class _Pod:
    shape: Shape
    together: tuple[int, ...]
    """The pod sets it belongs to, each of which shares one domain."""


class ExhaustiveSearch:
    """Enumerates the placements of the required pods of one gang."""

    def __init__(self, snapshot: Snapshot, gang: Gang) -> None:
        self._nodes = snapshot.nodes()
        self._levels: list[str] = []
        """The level of each pod set."""
        self._domains: list[str | None] = []
        """The domain of each pod set, as far as it is fixed."""
        self._never = False
        self._labels = {each.name: each.labels for each in self._nodes}
        self._pods = sorted(self._needed(gang), key=_weight, reverse=True)
        self._resources = sorted({name for pod in self._pods for name, _ in pod.shape.requests})
        self._free = [self._left_on(snapshot, each) for each in self._nodes]
        self._closed = self._nodes_to_avoid(gang)
        self._in_vain: set[object] = set()

    def can_place(self) -> bool:
        return not self._never and self._place(0, 0)

    # Pod sets

    def _needed(self, gang: Gang) -> Iterator[_Pod]:
        groups = {group.name: group for group in gang.groups}
        everywhere = [node for group in gang.groups for node in group.placed_nodes]
        whole = self._set(gang.pack.required, [*gang.base_nodes, *everywhere], gang.needed)
        bundle_of: dict[str, tuple[int, ...]] = {}
        for bundle in gang.bundles:
            inside = [groups[n] for n in bundle.groups if n in groups and n not in bundle_of]
            placed = [node for group in inside for node in group.placed_nodes]
            number = self._set(bundle.pack.required, placed, sum(g.needed for g in inside))
            bundle_of.update((group.name, number) for group in inside)
        for group in gang.groups:
            own = self._set(group.pack.required, group.placed_nodes, group.needed)
            for member, segment in self._in_segments(group):
                together = (*whole, *bundle_of.get(group.name, ()), *own, *segment)
                yield _Pod(member.shape, together)

    def _in_segments(self, group: Group) -> Iterator[tuple[Member, tuple[int, ...]]]:
        members, segments = group.members[: group.needed], group.segments
        if segments is None:
            yield from ((member, ()) for member in members)
            return
        for first in range(0, len(members), segments.size):
            number = self._set(segments.level, (), 1)
            yield from ((each, number) for each in members[first : first + segments.size])

    def _set(self, level: str, placed: Sequence[str], needed: int) -> tuple[int, ...]:
        if not level or not needed:
            return ()
        stand = {self._labels[node].get(level) for node in placed if node in self._labels}
        self._never = self._never or len(stand) > 1 or None in stand
        self._levels.append(level)
        self._domains.append(next(iter(stand), None))
        return (len(self._levels) - 1,)

    def _nodes_to_avoid(self, gang: Gang) -> set[str]:
        """Nodes of gangs that the gang must not share a domain with."""
        apart = gang.anti_affinity
        if apart is None or not apart.required:
            return set()
        met = {
            self._labels[node].get(apart.level)
            for node in apart.avoided_nodes
            if node in self._labels
        }
        return {each.name for each in self._nodes if each.labels.get(apart.level) in {*met, None}}

    # Free resources

    def _left_on(self, snapshot: Snapshot, node: Node) -> Free:
        row = snapshot.row(node.name)
        placements = list(snapshot.pods_on[row].values())
        used = used_on(placements, snapshot, row)
        milli, _ = devices_on(placements)
        resources = tuple(
            node.allocatable.get(name, implied_allocatable(name)) - used[name]
            for name in self._resources
        )
        devices = range(node.allocatable.get(GPU, 0))
        return resources, tuple(sorted(MILLI_PER_GPU - milli[index] for index in devices))

    # The search

    def _place(self, index: int, first: int) -> bool:
        """Places all pods from this one on; equal ones in the order of nodes."""
        if index == len(self._pods):
            return True
        state = index, first, tuple(self._free), tuple(self._domains)
        if state in self._in_vain:
            return False
        pod = self._pods[index]
        alike = index + 1 < len(self._pods) and self._pods[index + 1] == pod
        for number in range(first, len(self._nodes)):
            if not self._is_allowed(pod, number):
                continue
            before, domains = self._free[number], self._domains.copy()
            for each in pod.together:
                self._domains[each] = self._nodes[number].labels[self._levels[each]]
            for left in self._state_after(pod.shape, before):
                self._free[number] = left
                if self._place(index + 1, number if alike else 0):
                    return True
            self._free[number], self._domains = before, domains
        self._in_vain.add(state)
        return False

    def _is_allowed(self, pod: _Pod, number: int) -> bool:
        node = self._nodes[number]
        if node.name in self._closed:
            return False
        if any(node.labels.get(key) != value for key, value in pod.shape.node_selector):
            return False
        for each in pod.together:
            label = node.labels.get(self._levels[each])
            if label is None or self._domains[each] not in (None, label):
                return False
        return True

    def _state_after(self, shape: Shape, free: Free) -> Iterator[Free]:
        """What may be left of a node after placing a pod, for each choice of devices."""
        resources, devices = free
        wanted = dict(shape.requests)
        left = tuple(
            has - wanted.get(name, 0) for name, has in zip(self._resources, resources, strict=True)
        )
        if any(
            after < 0 and wanted.get(name)
            for name, after in zip(self._resources, left, strict=True)
        ):
            return
        request = shape.gpu
        if request is None:
            yield left, devices
            return
        feasible = [index for index, milli in enumerate(devices) if milli >= request.milli]
        for values in {
            tuple(
                sorted(
                    milli - request.milli if index in chosen else milli
                    for index, milli in enumerate(devices)
                )
            )
            for chosen in combinations(feasible, request.count)
        }:
            yield left, values


def _weight(pod: _Pod) -> tuple[object, ...]:
    request = pod.shape.gpu
    gpus = request.count * request.milli if request is not None else 0
    return gpus, pod.shape.requests, repr(pod.shape), pod.together
