"""The required placement constraints of a gang, one at a time, and the gang without them."""

from dataclasses import dataclass, replace
from typing import Literal

from kilonova.scheduler.core.model.gangs import Gang, Group, Member, PackConstraint
from kilonova.scheduler.core.model.requests import Shape
from kilonova.scheduler.core.topology.gang_tree import GangPart, build_gang_tree

ConstraintScope = Literal[
    "Gang", "TopologyConstraintGroup", "Group", "Segments", "GangAntiAffinity", "PodAffinity"
]


@dataclass(frozen=True, slots=True)
class PlacementConstraint:
    """A gang, a bundle (its groups), a group or each of its segments must be within one domain of a
    level; or the gang must not share a domain with others; or pods of a group have required
    affinity, anti-affinity or spread rules."""

    scope: ConstraintScope
    level: str
    groups: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """What the constraint applies to."""
        match self.scope:
            case "Gang" | "GangAntiAffinity":
                return "the gang"
            case "TopologyConstraintGroup":
                return f"groups {', '.join(self.groups)}"
            case "Group":
                return f"group {self.groups[0]}"
            case "Segments":
                return f"each segment of group {self.groups[0]}"
            case "PodAffinity":
                return f"pods of group {self.groups[0]}"


def list_constraints(gang: Gang) -> list[PlacementConstraint]:
    """All required constraints of a gang, the narrowest first."""
    found: list[PlacementConstraint] = []
    for group in gang.groups:
        if any(_has_pod_rules(member.shape) for member in group.members[: group.needed]):
            found.append(PlacementConstraint("PodAffinity", "", (group.name,)))
        if group.segments is not None:
            found.append(PlacementConstraint("Segments", group.segments.level, (group.name,)))
        if group.pack.required:
            found.append(PlacementConstraint("Group", group.pack.required, (group.name,)))
    for bundle in gang.bundles:
        if bundle.pack.required:
            found.append(
                PlacementConstraint("TopologyConstraintGroup", bundle.pack.required, bundle.groups)
            )
    if gang.pack.required:
        found.append(PlacementConstraint("Gang", gang.pack.required))
    if gang.anti_affinity is not None and gang.anti_affinity.required:
        found.append(PlacementConstraint("GangAntiAffinity", gang.anti_affinity.level))
    return found


def relax_constraint(gang: Gang, constraint: PlacementConstraint, level: str = "") -> Gang:
    """The gang with a broader level in a constraint, or without it."""
    match constraint.scope:
        case "Gang":
            return replace(gang, pack=_with_required_level(gang.pack, level))
        case "TopologyConstraintGroup":
            bundles = tuple(
                replace(each, pack=_with_required_level(each.pack, level))
                if each.groups == constraint.groups
                else each
                for each in gang.bundles
            )
            return replace(gang, bundles=bundles)
        case "GangAntiAffinity":
            assert gang.anti_affinity is not None
            return replace(gang, anti_affinity=replace(gang.anti_affinity, required=False))
        case "Group" | "Segments" | "PodAffinity":
            groups = tuple(
                _relax_group_constraint(each, constraint, level)
                if each.name in constraint.groups
                else each
                for each in gang.groups
            )
            return replace(gang, groups=groups)


def find_constrained_part(gang: Gang, constraint: PlacementConstraint) -> GangPart | None:
    """The part of a gang's tree that a constraint applies to."""
    root = build_gang_tree(gang)
    match constraint.scope:
        case "Gang":
            return root
        case "Group":
            return next(
                part for part in root.leaves() if _group_names(part) == {*constraint.groups}
            )
        case "TopologyConstraintGroup":
            parts = (*root.children, root)
            inside = (part for part in parts if part.children)
            return next(
                (part for part in inside if _group_names(part) <= {*constraint.groups}), None
            )
        case "Segments" | "GangAntiAffinity" | "PodAffinity":
            return None


def _group_names(part: GangPart) -> set[str]:
    return {leaf.group.name for leaf in part.leaves() if leaf.group is not None}


def _relax_group_constraint(group: Group, constraint: PlacementConstraint, level: str) -> Group:
    if constraint.scope == "Group":
        return replace(group, pack=_with_required_level(group.pack, level))
    if constraint.scope == "PodAffinity":
        return replace(group, members=tuple(_without_pod_rules(member) for member in group.members))
    segments = replace(group.segments, level=level) if group.segments and level else None
    return replace(group, segments=segments)


def _has_pod_rules(shape: Shape) -> bool:
    """Whether a pod has required rules about other pods."""
    pod_rules = shape.pod_rules
    return pod_rules is not None and bool(
        pod_rules.affinity
        or pod_rules.anti_affinity
        or any(spread.required for spread in pod_rules.topology_spread)
    )


def _without_pod_rules(member: Member) -> Member:
    pod_rules = member.shape.pod_rules
    if pod_rules is None:
        return member
    preferred = tuple(spread for spread in pod_rules.topology_spread if not spread.required)
    freed = replace(pod_rules, affinity=(), anti_affinity=(), topology_spread=preferred)
    return replace(member, shape=replace(member.shape, pod_rules=freed))


def _with_required_level(pack: PackConstraint, level: str) -> PackConstraint:
    return replace(pack, required=level)
