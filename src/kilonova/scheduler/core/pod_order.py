"""The pods that a gang needs now, in the order in which a search places them.

Pods that must stand within one domain are a **set**: they follow each other, so that a search knows
early whether a domain will do. What has the least choice of nodes comes first, and what asks for
most among those with as much.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.domains import anchored
from kilonova.scheduler.core.gangs import Group, Member
from kilonova.scheduler.core.labels import ABSENT, Rows
from kilonova.scheduler.core.nearness import objections
from kilonova.scheduler.core.neighbours import namespace_of
from kilonova.scheduler.core.parts import Part
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.snapshot import Snapshot

_Weight = tuple[int, ...]
"""How few nodes there are for a pod, and milli of devices, cpu and memory that all ask for."""


@dataclass(frozen=True, slots=True)
class OrderedPod:
    """A pod, the number of its kind, and the sets that it belongs to."""

    member: Member
    kind: int
    sets: tuple[int, ...]


_Block = tuple[_Weight, list[OrderedPod]]
"""Pods that follow each other."""


class PodOrder:
    """The pods of one gang, by a part's tree; `rows` are those that they may use."""

    def __init__(self, snapshot: Snapshot, rooms: Rooms, root: Part, rows: Rows) -> None:
        self._snapshot = snapshot
        self._rooms = rooms
        self._rows = rows
        self.levels: list[str] = []
        """The level of each set."""
        self.domains: list[int] = []
        """The domain of each set in which some of it stands already; `ABSENT` if none does."""
        self.is_contradictory = False
        """Whether a set stands in several domains already."""
        self.kinds: list[Member] = []
        """Of each kind a pod: the others ask for the same, and others treat them alike."""
        self.open: list[Rows] = []
        """By kind, the rows with room for one of its pods now."""
        self._kind_ids: dict[object, int] = {}
        blocks = sorted(self._blocks(root, ()), key=lambda block: block[0], reverse=True)
        self.pods = [pod for _, pods in blocks for pod in pods]

    def unfinished_sets(self) -> list[tuple[int, ...]]:
        """By pod, the sets of which some, but not all, come before it; and at last, none."""
        begun: set[int] = set()
        last: dict[int, int] = {}
        for index, pod in enumerate(self.pods):
            last.update((each, index) for each in pod.sets)
        found: list[tuple[int, ...]] = []
        for index, pod in enumerate(self.pods):
            found.append(tuple(sorted(each for each in begun if last[each] >= index)))
            begun.update(pod.sets)
        return [*found, ()]

    def _blocks(self, part: Part, sets: tuple[int, ...]) -> list[_Block]:
        if not part.needs_pods:
            return []
        own = self._set(part, part.pack.required) if part.pack.required else ()
        inside = (*sets, *own)
        if part.group is not None:
            blocks = self._members(part.group, inside)
        else:
            blocks = [block for child in part.children for block in self._blocks(child, inside)]
        return [_joined(blocks)] if own else blocks

    def _members(self, group: Group, sets: tuple[int, ...]) -> list[_Block]:
        members, segments = group.members[: group.needed], group.segments
        if segments is None:
            return self._alike(members, sets)
        blocks: list[_Block] = []
        for first in range(0, len(members), segments.size):
            inside = (*sets, *self._set(None, segments.level))
            blocks.append(_joined(self._alike(members[first : first + segments.size], inside)))
        return blocks

    def _set(self, part: Part | None, level: str) -> tuple[int]:
        """One more set."""
        anchors = anchored(self._snapshot, part, level) if part is not None else None
        if anchors is not None and (len(anchors) != 1 or anchors[0] == ABSENT):
            self.is_contradictory = True
        self.levels.append(level)
        self.domains.append(ABSENT if anchors is None else int(anchors[0]))
        return (len(self.levels) - 1,)

    def _alike(self, members: Sequence[Member], sets: tuple[int, ...]) -> list[_Block]:
        """Pods by their kind."""
        found: dict[int, list[OrderedPod]] = {}
        for member in members:
            kind = self._kind(member)
            found.setdefault(kind, []).append(OrderedPod(member, kind, sets))
        return [(self._weight(kind, len(pods)), pods) for kind, pods in found.items()]

    def _kind(self, member: Member) -> int:
        shape, neighbours = member.shape, self._snapshot.neighbours
        labels = None
        if shape.peers is not None or neighbours.repels:
            labels = namespace_of(member), frozenset(member.labels.items())
        found = self._kind_ids.setdefault((shape, labels), len(self.kinds))
        if found == len(self.kinds):
            self.kinds.append(member)
            able = self._rooms.room(shape)[self._rows] > 0
            against = objections(self._snapshot, member) if shape.peers is None else None
            if against is not None:
                able &= against[self._rows] == 0
            self.open.append(self._rows[able])
        return found

    def _weight(self, kind: int, count: int) -> _Weight:
        shape = self.kinds[kind].shape
        amounts, gpu = dict(shape.requests), shape.gpu
        devices = gpu.count * gpu.milli if gpu is not None else 0
        choice = (len(self.open[kind]) // count).bit_length()
        return -choice, devices, amounts.get("cpu", 0), amounts.get("memory", 0)


def _joined(blocks: list[_Block]) -> _Block:
    """Blocks as one, in their order."""
    blocks = sorted(blocks, key=lambda block: block[0], reverse=True)
    weights = [tuple(part * len(pods) for part in weight[1:]) for weight, pods in blocks]
    total = tuple(sum(each) for each in zip(*weights, strict=True))
    return (blocks[0][0][0], *total), [pod for _, pods in blocks for pod in pods]
