"""Pods and gangs that the operator would make of a PodCliqueSet that is not there yet."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from kilonova.api.grove import ClusterTopologyBinding, PodClique, PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.workloads.admission.defaults import defaulted
from kilonova.workloads.limits import set_excess
from kilonova.workloads.revisions import SetRevision, current_revision
from kilonova.workloads.settings import Settings
from kilonova.workloads.templates.cliques import clique_object
from kilonova.workloads.templates.gangs import CliquePods, gang_objects
from kilonova.workloads.templates.lookup import Member, cliques_alone, gang_name
from kilonova.workloads.templates.pods import pod_object
from kilonova.workloads.templates.topology import ALL_AVAILABLE, Levels, levels_of


@dataclass(frozen=True, slots=True)
class SetObjects:
    """What a set comes to."""

    pods: list[JsonObject]
    gangs: list[JsonObject]
    notes: list[str]


def objects_of_set(
    body: JsonObject, topologies: Mapping[str, ClusterTopologyBinding]
) -> SetObjects | str:
    """All pods and gangs of a set; or what is wrong with it."""
    try:
        set_ = msgspec.convert(defaulted(body), PodCliqueSet)
        if excess := set_excess(set_.spec):
            return f"PodCliqueSet: {excess}"
        revision = current_revision(set_, ())
        levels = levels_of(set_, topologies)
        made = SetObjects([], [], [])
        for index in range(set_.spec.replicas):
            _add_replica(made, set_, index, revision, levels)
    except msgspec.ValidationError as error:
        return f"PodCliqueSet: {error}"
    except KeyError as error:
        return f"PodCliqueSet: a scaling group names the clique {error}, which the set has not"
    if levels.reason not in (None, ALL_AVAILABLE):
        made.notes.append(f"{levels.message}: planned without what it says about levels")
    return made


def _add_replica(
    made: SetObjects, set_: PodCliqueSet, index: int, revision: SetRevision, levels: Levels
) -> None:
    settings = Settings()
    cliques: list[CliquePods] = []
    for clique, member in _cliques(set_, index):
        body = clique_object(set_, index, revision, clique, member, settings)
        body["metadata"] |= {"uid": "", "resourceVersion": ""}
        live = msgspec.convert(body, PodClique)
        pods = [names.pod(live.metadata.name, each, 0) for each in range(live.spec.replicas)]
        for number, name in enumerate(pods):
            made.pods.append(
                pod_object(live, set_, number, name, gated=False, released=True, settings=settings)
            )
        minimum = live.spec.min_available
        cliques.append(
            CliquePods(
                live.metadata.name,
                gang_name(set_.metadata.name, index, member),
                live.spec.replicas if minimum is None else min(minimum, live.spec.replicas),
                tuple(pods),
                None if member is None else member.group_name,
                None if member is None else member.index,
            )
        )
    groups = {
        names.scaling_group(set_.metadata.name, index, group.name): group.replicas
        for group in set_.spec.template.pod_clique_scaling_groups
    }
    made.gangs.extend(gang_objects(set_, index, cliques, groups, levels, settings))


def _cliques(set_: PodCliqueSet, index: int) -> Iterator[tuple[str, Member | None]]:
    """The cliques of a replica: those that stand alone, then those of the scaling groups."""
    template, set_name = set_.spec.template, set_.metadata.name
    for clique in cliques_alone(template):
        yield clique, None
    for group in template.pod_clique_scaling_groups:
        name = names.scaling_group(set_name, index, group.name)
        for number in range(group.replicas):
            for clique in group.clique_names:
                yield clique, Member(group, name, number)
