"""Which part of a set's template an object is made from, by exact names."""

from dataclasses import dataclass

from kilonova.api.grove import CliqueTemplate, PodCliqueSet, ScalingGroupTemplate, names
from kilonova.api.grove.podcliqueset import Template
from kilonova.api.meta import Metadata
from kilonova.workloads.keys import index_of, replica_of


@dataclass(frozen=True, slots=True)
class Member:
    """Which replica of which scaling group a clique is in."""

    group: ScalingGroupTemplate
    group_name: str
    """Full name of the PodCliqueScalingGroup."""
    index: int

    @property
    def is_scaled(self) -> bool:
        """Whether this replica is one beyond those that there must be, with a gang of its own."""
        return self.index >= self.group.min_available


@dataclass(frozen=True, slots=True)
class Place:
    """A clique's place in its set."""

    index: int
    """Of the set's replica."""
    clique: CliqueTemplate
    member: Member | None


def place_of(set_: PodCliqueSet, clique: Metadata) -> Place | None:
    """Where in its set a PodClique is, by its name and labels; None if the set has no such."""
    replica = replica_of(clique)
    if replica is None or replica.set_name != set_.metadata.name:
        return None
    template, member = set_.spec.template, None
    group_name = clique.labels.get(names.SCALING_GROUP)
    if group_name:
        group = find_group(template, set_.metadata.name, replica.index, group_name)
        group_index = index_of(clique, names.SCALING_GROUP_REPLICA_INDEX)
        if group is None or group_index is None:
            return None
        member = Member(group, group_name, group_index)
    found = clique_named(template, set_.metadata.name, replica.index, clique.name, member)
    return None if found is None else Place(replica.index, found, member)


def clique_named(
    template: Template, set_name: str, index: int, name: str, member: Member | None
) -> CliqueTemplate | None:
    """The clique whose full name this is in a replica, or in a replica of a scaling group."""
    for each in template.cliques:
        if full_name(set_name, index, each.name, member) == name:
            return each
    return None


def find_group(
    template: Template, set_name: str, index: int, group_name: str
) -> ScalingGroupTemplate | None:
    """The scaling group whose full name this is in a replica."""
    for each in template.pod_clique_scaling_groups:
        if names.scaling_group(set_name, index, each.name) == group_name:
            return each
    return None


def member_named(template: Template, set_name: str, index: int, name: str) -> Member | None:
    """The place of the clique whose full name this is, among those that groups must have."""
    for group in template.pod_clique_scaling_groups:
        group_name = names.scaling_group(set_name, index, group.name)
        for group_index in range(min(group.min_available, group.replicas)):
            member = Member(group, group_name, group_index)
            if name in (full_name(set_name, index, each, member) for each in group.clique_names):
                return member
    return None


def find_clique(template: Template, clique: str) -> CliqueTemplate:
    """The clique of this name; a KeyError if the set has none."""
    for each in template.cliques:
        if each.name == clique:
            return each
    raise KeyError(clique)


def group_of(template: Template, clique: str) -> ScalingGroupTemplate | None:
    """The scaling group that a clique is in, if it is in one."""
    for each in template.pod_clique_scaling_groups:
        if clique in each.clique_names:
            return each
    return None


def cliques_alone(template: Template) -> tuple[str, ...]:
    """Names, in the set, of the cliques that are in no scaling group."""
    return tuple(each.name for each in template.cliques if group_of(template, each.name) is None)


def full_name(set_name: str, index: int, clique: str, member: Member | None) -> str:
    """The name of a clique's PodClique."""
    if member is None:
        return names.clique(set_name, index, clique)
    return names.member_clique(member.group_name, member.index, clique)


def gang_name(set_name: str, index: int, member: Member | None) -> str:
    """The gang with which a clique is placed."""
    if member is None or not member.is_scaled:
        return names.replica(set_name, index)
    return names.scaled_gang(member.group_name, member.index, member.group.min_available)
