"""PodGang objects: what is placed together.

The base gang of a replica holds its cliques that stand alone and the replicas of its scaling
groups that there must be; each further replica of a scaling group is a gang of its own, which
refers to the base.

A set's constraint is the whole gang's, in base and scaled gangs alike: a scaled gang stands in the
same domain as its base. A scaling group's constraint is on its cliques of one replica, a clique's
on its pods. Replicas of a set keep apart by their base gangs; what is scaled follows the base.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.workloads.backends.stamps import gang_annotations
from kilonova.workloads.settings import Settings
from kilonova.workloads.templates.labels import owned_by_set, replica_labels
from kilonova.workloads.templates.lookup import Member, clique_named, find_group, gang_name
from kilonova.workloads.templates.marks import copied, noted
from kilonova.workloads.templates.topology import Levels


@dataclass(frozen=True, slots=True)
class CliquePods:
    """A PodClique, there or to be made, and its pods, there or to be made."""

    name: str
    """Full name of the PodClique."""
    gang: str
    """Name of its gang, as its label says."""
    min_replicas: int
    """So many pods start together with the gang: the fewer of minAvailable and replicas."""
    pod_names: tuple[str, ...]
    group: str | None = None
    """Full name of the PodCliqueScalingGroup that it is in, if it is in one."""
    group_index: int | None = None
    """Which replica of the scaling group it is in."""


def gang_objects(
    set_: PodCliqueSet,
    index: int,
    cliques: Sequence[CliquePods],
    groups: Mapping[str, int],
    levels: Levels,
    settings: Settings,
) -> list[JsonObject]:
    """The gangs of a replica, base first.

    `groups` are the live replicas of the scaling groups by their full names. Cliques of other
    gangs than these come to are left out: they are about to go.
    """
    template, set_name = set_.spec.template, set_.metadata.name
    base = names.replica(set_name, index)
    by_gang: dict[str, list[CliquePods]] = {base: []}
    for member in _members(set_, index, groups):
        by_gang.setdefault(gang_name(set_name, index, member), [])
    for each in cliques:
        if each.gang in by_gang:
            by_gang[each.gang].append(each)
    result: list[JsonObject] = []
    for gang, own in by_gang.items():
        spec: JsonObject = {
            "podgroups": [_pod_group(set_, index, each, levels) for each in own],
            "topologyConstraint": levels.constraint(template.topology_constraint),
            "topologyConstraintGroupConfigs": _group_constraints(set_, index, own, levels),
            "priorityClassName": template.priority_class_name or None,
        }
        if gang == base:
            spec["spread"] = levels.spread(template.topology_constraint, names.PART_OF)
        else:
            spec["baseRef"] = {"namespace": set_.metadata.namespace, "name": base}
        kept = {field: value for field, value in spec.items() if value is not None}
        result.append({"metadata": _metadata(set_, index, gang, levels, settings), "spec": kept})
    return result


def _metadata(
    set_: PodCliqueSet, index: int, gang: str, levels: Levels, settings: Settings
) -> JsonObject:
    own = set_.metadata
    first: JsonObject = set_.spec.template.cliques[0].spec.pod_spec
    scheduler = first.get("schedulerName") or settings.schedulers[0]
    labels = {
        **replica_labels(own.name, index, names.POD_GANG_COMPONENT, gang),
        names.SCHEDULER_NAME: scheduler,
    }
    of_people = {key: each for key, each in copied(own.labels).items() if key not in labels}
    annotations = copied(own.annotations) | gang_annotations(scheduler, settings)
    if levels.topology:
        annotations[names.TOPOLOGY_NAME] = levels.topology
    return owned_by_set(
        set_, gang, {**of_people, **labels}, noted(labels=of_people, annotations=annotations)
    )


def _members(set_: PodCliqueSet, index: int, groups: Mapping[str, int]) -> list[Member]:
    """All replicas of all scaling groups."""
    result: list[Member] = []
    for group_name, replicas in groups.items():
        group = find_group(set_.spec.template, set_.metadata.name, index, group_name)
        if group is not None:
            result += [Member(group, group_name, each) for each in range(replicas)]
    return result


def _pod_group(set_: PodCliqueSet, index: int, pods: CliquePods, levels: Levels) -> JsonObject:
    namespace = set_.metadata.namespace
    result: JsonObject = {
        "name": pods.name,
        "podReferences": [
            {"namespace": namespace, "name": each} for each in sorted(pods.pod_names)
        ],
        "minReplicas": pods.min_replicas,
    }
    clique = clique_named(
        set_.spec.template, set_.metadata.name, index, pods.name, _member_of(set_, index, pods)
    )
    constraint = None if clique is None else levels.constraint(clique.topology_constraint)
    return result if constraint is None else {**result, "topologyConstraint": constraint}


def _member_of(set_: PodCliqueSet, index: int, pods: CliquePods) -> Member | None:
    if pods.group is None or pods.group_index is None:
        return None
    group = find_group(set_.spec.template, set_.metadata.name, index, pods.group)
    return None if group is None else Member(group, pods.group, pods.group_index)


def _group_constraints(
    set_: PodCliqueSet, index: int, cliques: Sequence[CliquePods], levels: Levels
) -> list[JsonObject] | None:
    """Constraints on the cliques of one replica of a scaling group together."""
    by_replica: dict[str, tuple[Member, list[str]]] = {}
    for each in cliques:
        member = _member_of(set_, index, each)
        if member is not None:
            name = names.group_replica(member.group_name, member.index)
            by_replica.setdefault(name, (member, []))[1].append(each.name)
    result: list[JsonObject] = []
    for name, (member, pod_groups) in by_replica.items():
        constraint = levels.constraint(member.group.topology_constraint)
        if constraint is not None:
            result.append(
                {"name": name, "podGroupNames": pod_groups, "topologyConstraint": constraint}
            )
    return result or None
