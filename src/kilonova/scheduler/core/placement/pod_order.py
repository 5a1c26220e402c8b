"""The required pods of a gang, in the order in which a search assigns them.

Pods that must be placed within one domain are a **pod set**: they follow each other, so that the
search finds early whether a domain fits. Pods with fewest feasible nodes come first, among those
the pods with the largest requests.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.filters.inter_pod_rules import inter_pod_rejections
from kilonova.scheduler.core.model.gangs import Group, Member
from kilonova.scheduler.core.model.label_columns import ABSENT, Rows
from kilonova.scheduler.core.model.pod_counts import namespace_of
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.topology.domains import anchor_domains
from kilonova.scheduler.core.topology.gang_tree import GangPart

_Weight = tuple[int, ...]
"""How few nodes are feasible for a pod, and the milli of GPUs, CPU and memory that all request."""


@dataclass(frozen=True, slots=True)
class OrderedPod:
    """A pod, the number of its kind, and the pod sets that it belongs to."""

    member: Member
    kind: int
    sets: tuple[int, ...]


_Block = tuple[_Weight, list[OrderedPod]]
"""Pods that follow each other."""


class PodOrder:
    """The pods of one gang, from its tree; `rows` are the rows they may use."""

    def __init__(
        self, snapshot: Snapshot, feasibility: FeasibilityCache, root: GangPart, rows: Rows
    ) -> None:
        self._snapshot = snapshot
        self._feasibility = feasibility
        self._rows = rows
        self.levels: list[str] = []
        """The level of each pod set."""
        self.domains: list[int] = []
        """The domain of each pod set in which some of its pods are already placed; `ABSENT` if none
        is."""
        self.has_conflicting_anchors = False
        """Whether pods of one set are already placed in several domains."""
        self.kinds: list[Member] = []
        """One pod of each kind: pods of a kind have the same shape and match the same affinity
        rules."""
        self.feasible_rows: list[Rows] = []
        """By kind, the rows that are feasible for one of its pods now."""
        self._kind_ids: dict[object, int] = {}
        blocks = sorted(self._blocks(root, ()), key=lambda block: block[0], reverse=True)
        self.pods = [pod for _, pods in blocks for pod in pods]

    def unfinished_sets(self) -> list[tuple[int, ...]]:
        """By pod, the pod sets of which some, but not all, pods come before it; the last entry is
        empty."""
        begun: set[int] = set()
        last: dict[int, int] = {}
        for index, pod in enumerate(self.pods):
            last.update((each, index) for each in pod.sets)
        found: list[tuple[int, ...]] = []
        for index, pod in enumerate(self.pods):
            found.append(tuple(sorted(each for each in begun if last[each] >= index)))
            begun.update(pod.sets)
        return [*found, ()]

    def _blocks(self, part: GangPart, sets: tuple[int, ...]) -> list[_Block]:
        if not part.needs_pods:
            return []
        own = self._add_set(part, part.pack.required) if part.pack.required else ()
        inside = (*sets, *own)
        if part.group is not None:
            blocks = self._member_blocks(part.group, inside)
        else:
            blocks = [block for child in part.children for block in self._blocks(child, inside)]
        return [_merge_blocks(blocks)] if own else blocks

    def _member_blocks(self, group: Group, sets: tuple[int, ...]) -> list[_Block]:
        members, segments = group.members[: group.needed], group.segments
        if segments is None:
            return self._group_by_kind(members, sets)
        blocks: list[_Block] = []
        for first in range(0, len(members), segments.size):
            inside = (*sets, *self._add_set(None, segments.level))
            blocks.append(
                _merge_blocks(self._group_by_kind(members[first : first + segments.size], inside))
            )
        return blocks

    def _add_set(self, part: GangPart | None, level: str) -> tuple[int]:
        """Adds a pod set."""
        anchors = anchor_domains(self._snapshot, part, level) if part is not None else None
        if anchors is not None and (len(anchors) != 1 or anchors[0] == ABSENT):
            self.has_conflicting_anchors = True
        self.levels.append(level)
        self.domains.append(ABSENT if anchors is None else int(anchors[0]))
        return (len(self.levels) - 1,)

    def _group_by_kind(self, members: Sequence[Member], sets: tuple[int, ...]) -> list[_Block]:
        """Pods by their kind."""
        found: dict[int, list[OrderedPod]] = {}
        for member in members:
            kind = self._kind_of(member)
            found.setdefault(kind, []).append(OrderedPod(member, kind, sets))
        return [(self._weight(kind, len(pods)), pods) for kind, pods in found.items()]

    def _kind_of(self, member: Member) -> int:
        shape, pod_counts = member.shape, self._snapshot.pod_counts
        labels = None
        if shape.pod_rules is not None or pod_counts.has_anti_affinity:
            labels = namespace_of(member), frozenset(member.labels.items())
        found = self._kind_ids.setdefault((shape, labels), len(self.kinds))
        if found == len(self.kinds):
            self.kinds.append(member)
            feasible = self._feasibility.free_capacity(shape)[self._rows] > 0
            rejections = (
                inter_pod_rejections(self._snapshot, member) if shape.pod_rules is None else None
            )
            if rejections is not None:
                feasible &= rejections[self._rows] == 0
            self.feasible_rows.append(self._rows[feasible])
        return found

    def _weight(self, kind: int, count: int) -> _Weight:
        shape = self.kinds[kind].shape
        amounts, gpu = dict(shape.requests), shape.gpu
        devices = gpu.count * gpu.milli if gpu is not None else 0
        choice = (len(self.feasible_rows[kind]) // count).bit_length()
        return -choice, devices, amounts.get("cpu", 0), amounts.get("memory", 0)


def _merge_blocks(blocks: list[_Block]) -> _Block:
    """Joins blocks into one, in their order."""
    blocks = sorted(blocks, key=lambda block: block[0], reverse=True)
    weights = [tuple(part * len(pods) for part in weight[1:]) for weight, pods in blocks]
    total = tuple(sum(each) for each in zip(*weights, strict=True))
    return (blocks[0][0][0], *total), [pod for _, pods in blocks for pod in pods]
