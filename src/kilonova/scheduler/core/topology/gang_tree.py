"""A gang as a tree: the gang, bundles of groups, groups; each with its pack constraint."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kilonova.scheduler.core.model.gangs import Gang, Group, GroupBundle, PackConstraint
from kilonova.scheduler.core.model.requests import Shape


@dataclass(frozen=True, slots=True)
class GangPart:
    """A gang, a bundle or a single group. Only a part without children has a group."""

    pack: PackConstraint
    children: tuple["GangPart", ...] = ()
    group: Group | None = None
    anchor_nodes: tuple[str, ...] = ()
    """Nodes on which pods of this part, or of its base gang, are already placed."""
    required_shapes: tuple[tuple[Shape, int], ...] = ()
    """Number of pods of each shape that a group requires now, in order of rank."""

    @property
    def needs_pods(self) -> bool:
        """Whether a pod of this part must be placed now."""
        return any(leaf.required_shapes for leaf in self.leaves())

    def leaves(self) -> Iterator["GangPart"]:
        """The parts with a group."""
        if self.group is not None:
            yield self
        for child in self.children:
            yield from child.leaves()


def build_gang_tree(gang: Gang) -> GangPart:
    """The parts of a gang, the largest first among siblings because it is the hardest to place. A
    group that two bundles name belongs to the first; bundles of the same groups are nested, the
    first outermost."""
    leaves = {group.name: _make_leaf(group) for group in gang.groups}
    nested: dict[frozenset[str], list[GroupBundle]] = {}
    for bundle in gang.bundles:
        nested.setdefault(frozenset(bundle.groups), []).append(bundle)
    children: list[GangPart] = []
    for bundles in nested.values():
        inside = [leaves.pop(name) for name in bundles[0].groups if name in leaves]
        for bundle in reversed(bundles):
            inside = [_make_part(bundle.pack, inside)] if inside else []
        children.extend(inside)
    children.extend(leaves.values())
    if len(children) == 1 and not gang.pack and not gang.base_nodes:
        return children[0]
    return _make_part(gang.pack, children, gang.base_nodes)


def _make_part(
    pack: PackConstraint, children: list[GangPart], within: tuple[str, ...] = ()
) -> GangPart:
    anchors = (*within, *(node for child in children for node in child.anchor_nodes))
    return GangPart(pack, tuple(sorted(children, key=_size, reverse=True)), None, anchors)


def _make_leaf(group: Group) -> GangPart:
    counted = Counter(member.shape for member in group.members[: group.needed])
    return GangPart(group.pack, (), group, group.placed_nodes, tuple(counted.items()))


def _size(part: GangPart) -> tuple[int, int]:
    gpus = pods = 0
    for leaf in part.leaves():
        for shape, number in leaf.required_shapes:
            pods += number
            gpus += number * (shape.gpu.count if shape.gpu is not None else 0)
    return gpus, pods
