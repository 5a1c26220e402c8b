"""A gang as a tree: the gang, bundles of groups, groups; each with its wish where to stand."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.gangs import Gang, Group, Pack


@dataclass(frozen=True, slots=True)
class Part:
    """A gang, a bundle or a single group. Only a part without children has a group."""

    pack: Pack
    children: tuple["Part", ...] = ()
    group: Group | None = None
    anchors: tuple[str, ...] = ()
    """Nodes on which something of this part stands already."""
    wanted: tuple[tuple[Shape, int], ...] = ()
    """How many of each shape a group must have now, in order of rank."""

    @property
    def needs_pods(self) -> bool:
        """Whether a pod of this part must be placed now."""
        return any(leaf.wanted for leaf in self.leaves())

    def leaves(self) -> Iterator["Part"]:
        """The parts with a group."""
        if self.group is not None:
            yield self
        for child in self.children:
            yield from child.leaves()


def tree(gang: Gang) -> Part:
    """The parts of a gang, the largest first among brothers: it finds a place with most
    difficulty. A group that two bundles name belongs to the first."""
    leaves = {group.name: _leaf(group) for group in gang.groups}
    children: list[Part] = []
    for bundle in gang.bundles:
        inside = [leaves.pop(name) for name in bundle.groups if name in leaves]
        if inside:
            children.append(_part(bundle.pack, inside))
    children.extend(leaves.values())
    if len(children) == 1 and not gang.pack and not gang.within:
        return children[0]
    return _part(gang.pack, children, gang.within)


def _part(pack: Pack, children: list[Part], within: tuple[str, ...] = ()) -> Part:
    anchors = (*within, *(node for child in children for node in child.anchors))
    return Part(pack, tuple(sorted(children, key=_weight, reverse=True)), None, anchors)


def _leaf(group: Group) -> Part:
    counted = Counter(member.shape for member in group.members[: group.needed])
    return Part(group.pack, (), group, group.placed, tuple(counted.items()))


def _weight(part: Part) -> tuple[int, int]:
    gpus = pods = 0
    for leaf in part.leaves():
        for shape, number in leaf.wanted:
            pods += number
            gpus += number * (shape.gpu.count if shape.gpu is not None else 0)
    return gpus, pods
