"""Expands a PodCliqueSet to the pods and gangs that the operator would create."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from kilonova.api.grove import ClusterTopologyBinding, PodClique, PodCliqueSet, names
from kilonova.api.json import JsonObject
from kilonova.workloads.admission.defaults import apply_defaults
from kilonova.workloads.builders.pod_cliques import build_clique
from kilonova.workloads.builders.pod_gangs import GangMember, build_gangs
from kilonova.workloads.builders.pods import build_pod
from kilonova.workloads.builders.template_lookup import (
    GroupMember,
    get_gang_name,
    list_standalone_cliques,
)
from kilonova.workloads.builders.topology_levels import (
    ALL_LEVELS_AVAILABLE,
    ResolvedLevels,
    resolve_levels,
)
from kilonova.workloads.limits import check_set_limits
from kilonova.workloads.revisions import SetRevision, resolve_current_revision
from kilonova.workloads.settings import OperatorSettings


@dataclass(frozen=True, slots=True)
class PodCliqueSetObjects:
    """The pods and gangs of a PodCliqueSet."""

    pods: list[JsonObject]
    gangs: list[JsonObject]
    notes: list[str]


def expand_podcliqueset(
    body: JsonObject, topologies: Mapping[str, ClusterTopologyBinding]
) -> PodCliqueSetObjects | str:
    """All pods and gangs of a PodCliqueSet, or an error message."""
    try:
        set_ = msgspec.convert(apply_defaults(body), PodCliqueSet)
        if excess := check_set_limits(set_.spec):
            return f"PodCliqueSet: {excess}"
        revision = resolve_current_revision(set_, ())
        levels = resolve_levels(set_, topologies)
        objects = PodCliqueSetObjects([], [], [])
        for index in range(set_.spec.replicas):
            _add_replica(objects, set_, index, revision, levels)
    except msgspec.ValidationError as error:
        return f"PodCliqueSet: {error}"
    except KeyError as error:
        return f"PodCliqueSet: a scaling group names the clique {error}, which does not exist"
    if levels.reason not in (None, ALL_LEVELS_AVAILABLE):
        objects.notes.append(f"{levels.message}: planned without its topology constraints")
    return objects


def _add_replica(
    objects: PodCliqueSetObjects,
    set_: PodCliqueSet,
    index: int,
    revision: SetRevision,
    levels: ResolvedLevels,
) -> None:
    settings = OperatorSettings()
    cliques: list[GangMember] = []
    for clique, member in _iterate_cliques(set_, index):
        body = build_clique(set_, index, revision, clique, member, settings)
        body["metadata"] |= {"uid": "", "resourceVersion": ""}
        live = msgspec.convert(body, PodClique)
        pods = [names.pod(live.metadata.name, each, 0) for each in range(live.spec.replicas)]
        for number, name in enumerate(pods):
            objects.pods.append(
                build_pod(live, set_, number, name, gated=False, released=True, settings=settings)
            )
        minimum = live.spec.min_available
        cliques.append(
            GangMember(
                live.metadata.name,
                get_gang_name(set_.metadata.name, index, member),
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
    objects.gangs.extend(build_gangs(set_, index, cliques, groups, levels, settings))


def _iterate_cliques(set_: PodCliqueSet, index: int) -> Iterator[tuple[str, GroupMember | None]]:
    """The cliques of a replica: standalone cliques, then those of scaling groups."""
    template, set_name = set_.spec.template, set_.metadata.name
    for clique in list_standalone_cliques(template):
        yield clique, None
    for group in template.pod_clique_scaling_groups:
        name = names.scaling_group(set_name, index, group.name)
        for number in range(group.replicas):
            for clique in group.clique_names:
                yield clique, GroupMember(group, name, number)
