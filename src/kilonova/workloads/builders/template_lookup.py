"""Finds the part of a set's template that an object is made from, by exact names."""

from dataclasses import dataclass

from kilonova.api.grove import CliqueTemplate, PodCliqueSet, ScalingGroupTemplate, names
from kilonova.api.grove.podcliqueset import Template
from kilonova.api.meta import Metadata
from kilonova.workloads.keys import get_label_index, get_replica_key


@dataclass(frozen=True, slots=True)
class GroupMember:
    """The group replica that a clique is in."""

    group: ScalingGroupTemplate
    group_name: str
    """Full name of the PodCliqueScalingGroup."""
    index: int

    @property
    def is_scaled(self) -> bool:
        """Whether the group replica is beyond minAvailable, with a gang of its own."""
        return self.index >= self.group.min_available


@dataclass(frozen=True, slots=True)
class CliquePosition:
    """The position of a clique in its set."""

    index: int
    """The index of the set's replica."""
    clique: CliqueTemplate
    member: GroupMember | None


def locate_clique(set_: PodCliqueSet, clique: Metadata) -> CliquePosition | None:
    """The position of a PodClique in its set, by name and labels; None if there is none."""
    replica = get_replica_key(clique)
    if replica is None or replica.set_name != set_.metadata.name:
        return None
    template, member = set_.spec.template, None
    group_name = clique.labels.get(names.SCALING_GROUP)
    if group_name:
        group = find_group_by_full_name(template, set_.metadata.name, replica.index, group_name)
        group_index = get_label_index(clique, names.SCALING_GROUP_REPLICA_INDEX)
        if group is None or group_index is None:
            return None
        member = GroupMember(group, group_name, group_index)
    found = find_clique_by_full_name(
        template, set_.metadata.name, replica.index, clique.name, member
    )
    return None if found is None else CliquePosition(replica.index, found, member)


def find_clique_by_full_name(
    template: Template, set_name: str, index: int, name: str, member: GroupMember | None
) -> CliqueTemplate | None:
    """The clique with this full name in a replica or group replica."""
    for each in template.cliques:
        if get_full_name(set_name, index, each.name, member) == name:
            return each
    return None


def find_group_by_full_name(
    template: Template, set_name: str, index: int, group_name: str
) -> ScalingGroupTemplate | None:
    """The scaling group with this full name in a replica."""
    for each in template.pod_clique_scaling_groups:
        if names.scaling_group(set_name, index, each.name) == group_name:
            return each
    return None


def find_group_member(
    template: Template, set_name: str, index: int, name: str
) -> GroupMember | None:
    """The position of the clique with this full name in the base gang's group replicas."""
    for group in template.pod_clique_scaling_groups:
        group_name = names.scaling_group(set_name, index, group.name)
        for group_index in range(min(group.min_available, group.replicas)):
            member = GroupMember(group, group_name, group_index)
            if name in (
                get_full_name(set_name, index, each, member) for each in group.clique_names
            ):
                return member
    return None


def get_clique_template(template: Template, clique: str) -> CliqueTemplate:
    """The clique of this name; raises KeyError if the set has none."""
    for each in template.cliques:
        if each.name == clique:
            return each
    raise KeyError(clique)


def find_group_of_clique(template: Template, clique: str) -> ScalingGroupTemplate | None:
    """The scaling group of a clique; None for a standalone clique."""
    for each in template.pod_clique_scaling_groups:
        if clique in each.clique_names:
            return each
    return None


def list_standalone_cliques(template: Template) -> tuple[str, ...]:
    """Names of the cliques that are in no scaling group."""
    return tuple(
        each.name for each in template.cliques if find_group_of_clique(template, each.name) is None
    )


def get_full_name(set_name: str, index: int, clique: str, member: GroupMember | None) -> str:
    """The name of a clique's PodClique."""
    if member is None:
        return names.clique(set_name, index, clique)
    return names.member_clique(member.group_name, member.index, clique)


def get_gang_name(set_name: str, index: int, member: GroupMember | None) -> str:
    """The name of the gang that a clique belongs to."""
    if member is None or not member.is_scaled:
        return names.replica(set_name, index)
    return names.scaled_gang(member.group_name, member.index, member.group.min_available)
