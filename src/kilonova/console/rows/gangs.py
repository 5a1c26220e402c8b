"""PodGangs, PodCliqueSets and PodCliques as rows. Pure."""

from collections.abc import Iterator

import msgspec

from kilonova.api.grove import names
from kilonova.api.podgang import PackConstraint, PodGang
from kilonova.catalog.resource_names import GPU
from kilonova.component.console.values import parse_timestamp
from kilonova.console.objects import PodClique, PodCliqueSet, PodLabels
from kilonova.console.rows.model import (
    CliqueRow,
    GangGroup,
    GangRow,
    SetClique,
    SetRow,
)
from kilonova.console.rows.ownership import outer_workload_id, podcliqueset_id
from kilonova.console.rows.pods import queue_name
from kilonova.console.rows.quantities import effective_requests
from kilonova.kube.status import find_condition, is_condition_true

_PLACED_PHASES = ("Starting", "Running", "Succeeded")
_FAILURE_CONDITIONS = ("Failed", "TopologyLevelsUnavailable", "MinAvailableBreached")
_UPDATING = "UpdateInProgress"
_STARTUP_PREFIX = "CliqueStartupType"


def gang_row(gang: PodGang) -> GangRow:
    """The row of a gang."""
    metadata, spec, status = gang.metadata, gang.spec, gang.status
    labels = msgspec.convert(metadata.labels, PodLabels)
    unschedulable = find_condition(status.conditions, "Unschedulable")
    unhealthy = find_condition(status.conditions, "Unhealthy")
    problem = next(
        (each for each in (unschedulable, unhealthy) if each and each.status == "True"), None
    )
    pack = _pack_constraint(gang)
    return GangRow(
        id=f"{metadata.namespace}/{metadata.name}",
        set=podcliqueset_id(labels, metadata.namespace),
        phase=status.phase,
        groups=tuple(
            GangGroup(
                each.name,
                each.min_replicas,
                tuple(f"{pod.namespace}/{pod.name}" for pod in each.pod_references),
            )
            for each in spec.pod_groups
        ),
        queue=queue_name(labels),
        priority=spec.priority_class_name,
        pending_reason=unschedulable.message
        if unschedulable is not None and problem is unschedulable
        else "",
        reason=problem.reason if problem is not None else "",
        score=status.placement_score,
        required_topology=pack.required or "",
        preferred_topology=pack.preferred or "",
        base=f"{spec.base_ref.namespace}/{spec.base_ref.name}" if spec.base_ref else "",
        created=parse_timestamp(metadata.creation_timestamp),
        scheduled=parse_timestamp(status.last_scheduled),
        ready_at=parse_timestamp(status.last_ready),
    )


def set_row(set_: PodCliqueSet) -> SetRow:
    """The row of a PodCliqueSet."""
    metadata, spec, status = set_.metadata, set_.spec, set_.status
    placed = {each.name for each in status.pod_gang_statuses if each.phase in _PLACED_PHASES}
    updating = find_condition(status.conditions, _UPDATING)
    return SetRow(
        id=metadata.id,
        replicas=spec.replicas,
        available=status.available_replicas,
        scheduled=sum(_is_replica(each, set_) for each in placed),
        updated=status.updated_replicas,
        startup=spec.template.clique_startup_type.removeprefix(_STARTUP_PREFIX),
        cliques=tuple(
            SetClique(
                name=each.name,
                role=each.spec.role_name or each.name,
                replicas=each.spec.replicas,
                min=each.spec.effective_min_available,
                after=each.spec.starts_after,
                gpus=int(effective_requests(each.spec.pod_spec).get(GPU, 0.0)),
            )
            for each in spec.template.cliques
        ),
        problem=max(_find_problems(set_), default=("", ""))[1],
        updating=updating is not None and updating.status != "False",
        deleting=metadata.deletion_timestamp is not None,
        workload=outer_workload_id("PodCliqueSet", metadata),
        created=parse_timestamp(metadata.creation_timestamp),
    )


def clique_row(clique: PodClique) -> CliqueRow:
    """The row of a PodClique."""
    metadata, labels = clique.metadata, clique.metadata.labels
    return CliqueRow(
        id=metadata.id,
        set=podcliqueset_id(labels, metadata.namespace),
        gang=f"{metadata.namespace}/{labels.gang}" if labels.gang else "",
        role=clique.spec.role_name,
        replicas=clique.spec.replicas,
        min=clique.spec.effective_min_available,
        ready=clique.status.ready_replicas,
        scheduled=clique.status.scheduled_replicas,
        created=parse_timestamp(metadata.creation_timestamp),
    )


def _is_replica(gang: str, set_: PodCliqueSet) -> bool:
    """Whether a gang is a base gang of one of the set's replicas, not a scaled gang."""
    # Parsed, not compared with generated names: a set may ask for very many replicas.
    index = gang.rpartition("-")[2]
    if not index.isdecimal() or int(index) >= set_.spec.replicas:
        return False
    return gang == names.replica(set_.metadata.name, int(index))


def _pack_constraint(gang: PodGang) -> PackConstraint:
    """The widest topology constraint: of the gang, else of a group of pod groups, else of one."""
    spec = gang.spec
    constraints = (
        spec.topology_constraint,
        *(each.topology_constraint for each in spec.topology_constraint_group_configs),
        *(each.topology_constraint for each in spec.pod_groups),
    )
    packs = (each.pack_constraint for each in constraints if each is not None)
    return next((each for each in packs if each is not None), PackConstraint())


def _find_problems(set_: PodCliqueSet) -> Iterator[tuple[str, str]]:
    """Problems with their timestamps, which sort as text."""
    for each in set_.status.conditions:
        stuck = each.type == _UPDATING and each.status == "Unknown"
        if stuck or (each.type in _FAILURE_CONDITIONS and is_condition_true((each,), each.type)):
            yield each.last_transition_time or "", each.message or each.reason
    for each in set_.status.last_errors:
        yield each.observed_at, each.description
