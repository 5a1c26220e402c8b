"""Gangs, sets and cliques as rows. Pure."""

from collections.abc import Iterator

import msgspec

from kilonova.api.grove import names
from kilonova.api.podgang import PackConstraint, PodGang
from kilonova.console.amounts import asked_for
from kilonova.console.noderows import GPU
from kilonova.console.objects import PodClique, PodCliqueSet, PodLabels
from kilonova.console.podrows import queue_of, set_of
from kilonova.console.podstate import condition_of, is_true
from kilonova.console.rows import CliqueRow, GangGroup, GangRow, SetClique, SetRow, moment

_PLACED = ("Starting", "Running", "Succeeded")
_BAD = ("Failed", "TopologyLevelsUnavailable", "MinAvailableBreached")
_UPDATING = "UpdateInProgress"
_STARTUP = "CliqueStartupType"


def gang_row(gang: PodGang) -> GangRow:
    """A gang as it is shown."""
    metadata, spec, status = gang.metadata, gang.spec, gang.status
    labels = msgspec.convert(metadata.labels, PodLabels)
    waits = condition_of(status.conditions, "Unschedulable")
    unhealthy = condition_of(status.conditions, "Unhealthy")
    told = next((each for each in (waits, unhealthy) if each and each.status == "True"), None)
    pack = _pack(gang)
    return GangRow(
        id=f"{metadata.namespace}/{metadata.name}",
        set=set_of(labels, metadata.namespace),
        phase=status.phase,
        groups=tuple(
            GangGroup(
                each.name,
                each.min_replicas,
                tuple(f"{pod.namespace}/{pod.name}" for pod in each.pod_references),
            )
            for each in spec.pod_groups
        ),
        queue=queue_of(labels),
        priority=spec.priority_class_name,
        waits=waits.message if waits is not None and told is waits else "",
        reason=told.reason if told is not None else "",
        score=status.placement_score,
        pack=pack.required or "",
        prefers=pack.preferred or "",
        base=f"{spec.base_ref.namespace}/{spec.base_ref.name}" if spec.base_ref else "",
        created=moment(metadata.creation_timestamp),
        scheduled=moment(status.last_scheduled),
        ready_at=moment(status.last_ready),
    )


def set_row(set_: PodCliqueSet) -> SetRow:
    """A set as it is shown."""
    metadata, spec, status = set_.metadata, set_.spec, set_.status
    placed = {each.name for each in status.pod_gang_statuses if each.phase in _PLACED}
    updating = condition_of(status.conditions, _UPDATING)
    return SetRow(
        id=metadata.id,
        replicas=spec.replicas,
        available=status.available_replicas,
        scheduled=sum(_is_replica(each, set_) for each in placed),
        updated=status.updated_replicas,
        startup=spec.template.clique_startup_type.removeprefix(_STARTUP),
        cliques=tuple(
            SetClique(
                name=each.name,
                role=each.spec.role_name or each.name,
                replicas=each.spec.replicas,
                min=each.spec.least,
                after=each.spec.starts_after,
                gpus=int(asked_for(each.spec.pod_spec, GPU)),
            )
            for each in spec.template.cliques
        ),
        problem=max(_problems(set_), default=("", ""))[1],
        updating=updating is not None and updating.status != "False",
        deleting=metadata.deletion_timestamp is not None,
        created=moment(metadata.creation_timestamp),
    )


def clique_row(clique: PodClique) -> CliqueRow:
    """A clique as it is shown."""
    metadata, labels = clique.metadata, clique.metadata.labels
    return CliqueRow(
        id=metadata.id,
        set=set_of(labels, metadata.namespace),
        gang=f"{metadata.namespace}/{labels.gang}" if labels.gang else "",
        role=clique.spec.role_name,
        replicas=clique.spec.replicas,
        min=clique.spec.least,
        ready=clique.status.ready_replicas,
        scheduled=clique.status.scheduled_replicas,
        created=moment(metadata.creation_timestamp),
    )


def _is_replica(gang: str, set_: PodCliqueSet) -> bool:
    """Whether a gang is one of the replicas that a set should have, and not more pods of one."""
    # Names of all replicas would be more than there is memory for, where very many are asked for.
    index = gang.rpartition("-")[2]
    if not index.isdecimal() or int(index) >= set_.spec.replicas:
        return False
    return gang == names.replica(set_.metadata.name, int(index))


def _pack(gang: PodGang) -> PackConstraint:
    """The widest constraint of a gang: its own, else that of some of its groups, else of one."""
    spec = gang.spec
    constraints = (
        spec.topology_constraint,
        *(each.topology_constraint for each in spec.topology_constraint_group_configs),
        *(each.topology_constraint for each in spec.pod_groups),
    )
    packs = (each.pack_constraint for each in constraints if each is not None)
    return next((each for each in packs if each is not None), PackConstraint())


def _problems(set_: PodCliqueSet) -> Iterator[tuple[str, str]]:
    """What is wrong, each with since when; the times sort as they are written."""
    for each in set_.status.conditions:
        stuck = each.type == _UPDATING and each.status == "Unknown"
        if stuck or (each.type in _BAD and is_true((each,), each.type)):
            yield each.last_transition_time or "", each.message or each.reason
    for each in set_.status.last_errors:
        yield each.observed_at, each.description
