"""Equivalent gangs: where one of them is not feasible, no other is."""

from collections import Counter
from collections.abc import Hashable, Sequence

from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.pod_counts import PodCounts


def equivalence_key(gang: Gang, pod_counts: PodCounts) -> Hashable | None:
    """Equal for gangs that are feasible only together; None where a newly placed pod may make the
    gang feasible (affinity), or where it uses a reservation."""
    decisive = [_decisive_members(gang, group) for group in gang.groups]
    members = [member for group_members in decisive for member in group_members]
    if gang.reservation or any(member.shape.pod_rules is not None for member in members):
        return None
    anti_affinity = (
        {pod_counts.anti_affinity_against(each) for each in members}
        if pod_counts.has_anti_affinity
        else ()
    )
    groups = tuple(
        (
            tuple(Counter(member.shape for member in group_members).items()),
            group.pack,
            group.segments,
            group.placed_nodes if group.pack or gang.pack else (),
        )
        for group, group_members in zip(gang.groups, decisive, strict=True)
    )
    return (
        groups,
        gang.pack,
        gang.bundles,
        gang.anti_affinity,
        gang.base_nodes,
        gang.queue,
        gang.priority,
        gang.preempts,
        frozenset(anti_affinity),
    )


def _decisive_members(gang: Gang, group: Group) -> Sequence[Member]:
    """The pods of a group that decide whether its gang is placed: the required ones, or where the
    gang has its minimum, the first surplus pod (see `placer.with_one_more_required`)."""
    return group.members[: group.needed if gang.needed else 1]
