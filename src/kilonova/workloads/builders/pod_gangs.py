"""PodGangs: pods that are scheduled together.

The base gang of a replica holds its standalone cliques and the first minAvailable replicas of its
scaling groups; each further group replica is a gang of its own, which refers to the base.

The set's constraint applies to the whole gang, base and scaled alike: a scaled gang is placed in
the domain of its base. A scaling group's constraint applies to its cliques of one group replica, a
clique's to its pods. Replicas of a set are spread by their base gangs; scaled gangs follow the
base.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.workloads.backends.metadata import build_gang_annotations
from kilonova.workloads.builders.labels import build_owned_metadata, build_replica_labels
from kilonova.workloads.builders.propagated_metadata import (
    record_propagated_keys,
    select_propagated,
)
from kilonova.workloads.builders.template_lookup import (
    GroupMember,
    find_clique_by_full_name,
    find_group_by_full_name,
    get_gang_name,
)
from kilonova.workloads.builders.topology_levels import ResolvedLevels
from kilonova.workloads.settings import OperatorSettings


@dataclass(frozen=True, slots=True)
class GangMember:
    """A PodClique of a gang, existing or to be created, with the names of its pods."""

    name: str
    """Full name of the PodClique."""
    gang: str
    """Name of its gang, as in its label."""
    min_replicas: int
    """Pods that start together with the gang: the lesser of minAvailable and replicas."""
    pod_names: tuple[str, ...]
    group: str | None = None
    """Full name of its PodCliqueScalingGroup; None for a standalone clique."""
    group_index: int | None = None
    """The index of its group replica."""


def build_gangs(
    set_: PodCliqueSet,
    index: int,
    cliques: Sequence[GangMember],
    groups: Mapping[str, int],
    levels: ResolvedLevels,
    settings: OperatorSettings,
) -> list[JsonObject]:
    """The gangs of a replica, base first.

    `groups` are the live replica counts of the scaling groups by full name. Cliques of other gangs
    are omitted: they are about to be deleted.
    """
    template, set_name = set_.spec.template, set_.metadata.name
    base = names.replica(set_name, index)
    by_gang: dict[str, list[GangMember]] = {base: []}
    for member in _list_members(set_, index, groups):
        by_gang.setdefault(get_gang_name(set_name, index, member), [])
    for each in cliques:
        if each.gang in by_gang:
            by_gang[each.gang].append(each)
    result: list[JsonObject] = []
    for gang, own in by_gang.items():
        spec: JsonObject = {
            "podgroups": [_build_pod_group(set_, index, each, levels) for each in own],
            "topologyConstraint": levels.build_constraint(template.topology_constraint),
            "topologyConstraintGroupConfigs": _build_group_constraints(set_, index, own, levels),
            "priorityClassName": template.priority_class_name or None,
        }
        if gang == base:
            spec["spread"] = levels.build_spread(template.topology_constraint, names.PART_OF)
        else:
            spec["baseRef"] = {"namespace": set_.metadata.namespace, "name": base}
        present = {field: value for field, value in spec.items() if value is not None}
        result.append(
            {"metadata": _build_metadata(set_, index, gang, levels, settings), "spec": present}
        )
    return result


def _build_metadata(
    set_: PodCliqueSet, index: int, gang: str, levels: ResolvedLevels, settings: OperatorSettings
) -> JsonObject:
    own = set_.metadata
    first: JsonObject = set_.spec.template.cliques[0].spec.pod_spec
    scheduler = first.get("schedulerName") or settings.schedulers[0]
    labels = {
        **build_replica_labels(own.name, index, names.POD_GANG_COMPONENT, gang),
        names.SCHEDULER_NAME: scheduler,
    }
    user_labels = {
        key: each for key, each in select_propagated(own.labels).items() if key not in labels
    }
    annotations = select_propagated(own.annotations) | build_gang_annotations(scheduler, settings)
    if levels.topology:
        annotations[names.TOPOLOGY_NAME] = levels.topology
    return build_owned_metadata(
        set_,
        gang,
        {**user_labels, **labels},
        record_propagated_keys(labels=user_labels, annotations=annotations),
    )


def _list_members(set_: PodCliqueSet, index: int, groups: Mapping[str, int]) -> list[GroupMember]:
    """All replicas of all scaling groups."""
    result: list[GroupMember] = []
    for group_name, replicas in groups.items():
        group = find_group_by_full_name(set_.spec.template, set_.metadata.name, index, group_name)
        if group is not None:
            result += [GroupMember(group, group_name, each) for each in range(replicas)]
    return result


def _build_pod_group(
    set_: PodCliqueSet, index: int, member: GangMember, levels: ResolvedLevels
) -> JsonObject:
    namespace = set_.metadata.namespace
    result: JsonObject = {
        "name": member.name,
        "podReferences": [
            {"namespace": namespace, "name": each} for each in sorted(member.pod_names)
        ],
        "minReplicas": member.min_replicas,
    }
    clique = find_clique_by_full_name(
        set_.spec.template,
        set_.metadata.name,
        index,
        member.name,
        _get_group_member(set_, index, member),
    )
    constraint = None if clique is None else levels.build_constraint(clique.topology_constraint)
    return result if constraint is None else {**result, "topologyConstraint": constraint}


def _get_group_member(set_: PodCliqueSet, index: int, member: GangMember) -> GroupMember | None:
    if member.group is None or member.group_index is None:
        return None
    group = find_group_by_full_name(set_.spec.template, set_.metadata.name, index, member.group)
    return None if group is None else GroupMember(group, member.group, member.group_index)


def _build_group_constraints(
    set_: PodCliqueSet, index: int, cliques: Sequence[GangMember], levels: ResolvedLevels
) -> list[JsonObject] | None:
    """Constraints on the cliques of one group replica together."""
    by_replica: dict[str, tuple[GroupMember, list[str]]] = {}
    for each in cliques:
        member = _get_group_member(set_, index, each)
        if member is not None:
            name = names.group_replica(member.group_name, member.index)
            by_replica.setdefault(name, (member, []))[1].append(each.name)
    result: list[JsonObject] = []
    for name, (member, pod_groups) in by_replica.items():
        constraint = levels.build_constraint(member.group.topology_constraint)
        if constraint is not None:
            result.append(
                {"name": name, "podGroupNames": pod_groups, "topologyConstraint": constraint}
            )
    return result or None
