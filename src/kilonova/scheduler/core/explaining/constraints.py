"""What a gang insists on about domains, one constraint at a time, and the gang without it."""

from dataclasses import dataclass, replace
from typing import Literal

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.gangs import Gang, Group, Member, Pack
from kilonova.scheduler.core.parts import Part, tree

Whose = Literal["Gang", "Bundle", "Group", "Segments", "Apart", "Neighbours"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """That a gang, a bundle (its groups), a group or each of its segments stands within one domain
    of a level, that the gang stands in other domains than others do, or that pods of a group have
    rules about the pods around them."""

    whose: Whose
    level: str
    groups: tuple[str, ...] = ()

    @property
    def who(self) -> str:
        """Whom it holds together, or apart."""
        match self.whose:
            case "Gang" | "Apart":
                return "the gang"
            case "Bundle":
                return f"groups {', '.join(self.groups)}"
            case "Group":
                return f"group {self.groups[0]}"
            case "Segments":
                return f"each segment of group {self.groups[0]}"
            case "Neighbours":
                return f"pods of group {self.groups[0]}"


def constraints(gang: Gang) -> list[Constraint]:
    """All that a gang insists on, the narrowest first."""
    found: list[Constraint] = []
    for group in gang.groups:
        if any(_rules(member.shape) for member in group.members[: group.needed]):
            found.append(Constraint("Neighbours", "", (group.name,)))
        if group.segments is not None:
            found.append(Constraint("Segments", group.segments.level, (group.name,)))
        if group.pack.required:
            found.append(Constraint("Group", group.pack.required, (group.name,)))
    for bundle in gang.bundles:
        if bundle.pack.required:
            found.append(Constraint("Bundle", bundle.pack.required, bundle.groups))
    if gang.pack.required:
        found.append(Constraint("Gang", gang.pack.required))
    if gang.apart is not None and gang.apart.required:
        found.append(Constraint("Apart", gang.apart.level))
    return found


def loosened(gang: Gang, constraint: Constraint, level: str = "") -> Gang:
    """The gang with a broader level in a constraint, or without it."""
    match constraint.whose:
        case "Gang":
            return replace(gang, pack=_packed(gang.pack, level))
        case "Bundle":
            bundles = tuple(
                replace(each, pack=_packed(each.pack, level))
                if each.groups == constraint.groups
                else each
                for each in gang.bundles
            )
            return replace(gang, bundles=bundles)
        case "Apart":
            assert gang.apart is not None
            return replace(gang, apart=replace(gang.apart, required=False))
        case "Group" | "Segments" | "Neighbours":
            groups = tuple(
                _loosened_group(each, constraint, level) if each.name in constraint.groups else each
                for each in gang.groups
            )
            return replace(gang, groups=groups)


def part_of(gang: Gang, constraint: Constraint) -> Part | None:
    """The part of a gang's tree that a constraint is about."""
    root = tree(gang)
    match constraint.whose:
        case "Gang":
            return root
        case "Group":
            return next(part for part in root.leaves() if _names(part) == {*constraint.groups})
        case "Bundle":
            parts = (*root.children, root)
            inside = (part for part in parts if part.children)
            return next((part for part in inside if _names(part) <= {*constraint.groups}), None)
        case "Segments" | "Apart" | "Neighbours":
            return None


def _names(part: Part) -> set[str]:
    return {leaf.group.name for leaf in part.leaves() if leaf.group is not None}


def _loosened_group(group: Group, constraint: Constraint, level: str) -> Group:
    if constraint.whose == "Group":
        return replace(group, pack=_packed(group.pack, level))
    if constraint.whose == "Neighbours":
        return replace(group, members=tuple(_unruly(member) for member in group.members))
    segments = replace(group.segments, level=level) if group.segments and level else None
    return replace(group, segments=segments)


def _rules(shape: Shape) -> bool:
    """Whether a pod insists on anything about the pods around it."""
    peers = shape.peers
    return peers is not None and bool(
        peers.near or peers.apart or any(spread.required for spread in peers.spreads)
    )


def _unruly(member: Member) -> Member:
    peers = member.shape.peers
    if peers is None:
        return member
    wishes = tuple(spread for spread in peers.spreads if not spread.required)
    freed = replace(peers, near=(), apart=(), spreads=wishes)
    return replace(member, shape=replace(member.shape, peers=freed))


def _packed(pack: Pack, level: str) -> Pack:
    return replace(pack, required=level)
