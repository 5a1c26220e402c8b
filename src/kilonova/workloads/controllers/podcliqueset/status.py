"""The status of a set. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.durations import parse_duration
from kilonova.api.grove import PodCliqueSet, PodCliqueSetStatus, names
from kilonova.api.grove.podcliqueset import PodGangSummary, SetUpdateProgress
from kilonova.api.meta import Condition
from kilonova.api.podgang import PodGang
from kilonova.api.times import add_seconds, parse_time
from kilonova.kube.status import with_condition, without_condition
from kilonova.workloads.builders.template_lookup import list_standalone_cliques
from kilonova.workloads.builders.topology_levels import ResolvedLevels
from kilonova.workloads.controllers.podclique.completion import COMPLETE_CONDITION, FAILED_CONDITION
from kilonova.workloads.controllers.podcliqueset.replica_state import ReplicaState
from kilonova.workloads.status.condition_types import UPDATE_IN_PROGRESS
from kilonova.workloads.update_strategy import (
    count_surge_replicas,
    get_rolling_update,
    is_update_open,
)

TOPOLOGY_LEVELS_UNAVAILABLE = "TopologyLevelsUnavailable"

_MAX_GANGS_WITH_CONDITIONS = 50
"""With more gangs the status lists only their phases: with all conditions it would exceed the size
that the API accepts.
"""


@dataclass(frozen=True, slots=True)
class StatusInputs:
    """What a status is computed from."""

    hash: str
    """Of the newest revision."""
    progress: SetUpdateProgress | None
    replicas: Mapping[int, ReplicaState]
    """All replicas of which any object exists."""
    gangs: Iterable[PodGang]
    levels: ResolvedLevels


def build_status(set_: PodCliqueSet, inputs: StatusInputs, now: datetime) -> PodCliqueSetStatus:
    """The status of a set without errors."""
    desired_replicas = set_.spec.replicas + count_surge_replicas(set_, inputs.progress)
    present = [each for index, each in inputs.replicas.items() if index < desired_replicas]
    return PodCliqueSetStatus(
        updated_replicas=sum(each.updated for each in present),
        available_replicas=sum(each.available for each in present),
        replicas=set_.spec.replicas,
        observed_generation=set_.metadata.generation,
        conditions=_build_conditions(set_, inputs, now),
        hpa_pod_selector=_build_selector(set_.metadata.name),
        pod_gang_statuses=_summarize_gangs(inputs.gangs),
        current_generation_hash=inputs.hash,
        update_progress=_count_update_progress(set_, inputs, desired_replicas)
        if inputs.progress
        else None,
    )


def get_finish_time(status: PodCliqueSetStatus) -> datetime | None:
    """When the set completed or failed."""
    times = [
        parse_time(each.last_transition_time)
        for each in status.conditions
        if each.type in (COMPLETE_CONDITION, FAILED_CONDITION)
        and each.status == "True"
        and each.last_transition_time
    ]
    return min(times, default=None)


def compute_progress_deadline(
    set_: PodCliqueSet, progress: SetUpdateProgress | None
) -> datetime | None:
    """When an update without progress exceeds progressDeadline; None if no deadline is set."""
    deadline = get_rolling_update(set_).progress_deadline
    if deadline is None or progress is None or not is_update_open(progress):
        return None
    updating = (each.update_started_at for each in progress.currently_updating)
    times = [parse_time(each) for each in (progress.update_started_at, *updating) if each]
    return add_seconds(max(times), parse_duration(deadline)) if times else None


def _build_conditions(
    set_: PodCliqueSet, inputs: StatusInputs, now: datetime
) -> tuple[Condition, ...]:
    result = _set_topology_condition(set_, inputs.levels, now)
    result = _set_update_condition(result, set_, inputs.progress, now)
    return _set_completion_conditions(result, set_, inputs.replicas, now)


def _set_topology_condition(
    set_: PodCliqueSet, levels: ResolvedLevels, now: datetime
) -> tuple[Condition, ...]:
    conditions, generation = set_.status.conditions, set_.metadata.generation
    if levels.reason is None:
        return without_condition(conditions, TOPOLOGY_LEVELS_UNAVAILABLE)
    unavailable = Condition(
        TOPOLOGY_LEVELS_UNAVAILABLE,
        levels.condition_status,
        levels.reason,
        levels.message,
        observed_generation=generation,
    )
    return with_condition(conditions, unavailable, now)


def _set_update_condition(
    conditions: tuple[Condition, ...],
    set_: PodCliqueSet,
    progress: SetUpdateProgress | None,
    now: datetime,
) -> tuple[Condition, ...]:
    if progress is None:
        return without_condition(conditions, UPDATE_IN_PROGRESS)
    deadline = compute_progress_deadline(set_, progress)
    if not is_update_open(progress):
        status, reason, message = "False", "UpdateCompleted", "No update is in progress"
    elif deadline is not None and deadline <= now:
        status, reason = "Unknown", "ProgressDeadlineExceeded"
        updating = ", ".join(str(each.replica_index) for each in progress.currently_updating)
        limit = get_rolling_update(set_).progress_deadline
        why = (
            f"not available: replicas {updating}"
            if updating
            else "not enough replicas are available"
        )
        message = f"No progress for {limit}: {why}"
    else:
        status, reason = "True", "RollingRecreate"
        message = "Outdated replicas are being replaced"
    generation = set_.metadata.generation
    update = Condition(UPDATE_IN_PROGRESS, status, reason, message, observed_generation=generation)
    return with_condition(conditions, update, now)


def _set_completion_conditions(
    conditions: tuple[Condition, ...],
    set_: PodCliqueSet,
    replicas: Mapping[int, ReplicaState],
    now: datetime,
) -> tuple[Condition, ...]:
    requested = [replicas.get(index) for index in range(set_.spec.replicas)]
    complete = bool(requested) and all(each is not None and each.complete for each in requested)
    failed = [each.index for each in requested if each is not None and each.failed]
    generation = set_.metadata.generation
    if complete:
        all_complete = Condition(
            COMPLETE_CONDITION,
            "True",
            "AllCliquesComplete",
            "All cliques are complete",
            observed_generation=generation,
        )
        conditions = with_condition(conditions, all_complete, now)
    else:
        conditions = without_condition(conditions, COMPLETE_CONDITION)
    if not failed:
        return without_condition(conditions, FAILED_CONDITION)
    message = (
        f"Failed pods of a clique exceed backoffLimit in replicas {', '.join(map(str, failed))}"
    )
    some_failed = Condition(
        FAILED_CONDITION, "True", "BackoffLimitExceeded", message, observed_generation=generation
    )
    return with_condition(conditions, some_failed, now)


def _count_update_progress(
    set_: PodCliqueSet, inputs: StatusInputs, desired_replicas: int
) -> SetUpdateProgress:
    template = set_.spec.template
    groups = template.pod_clique_scaling_groups
    present = [each for index, each in inputs.replicas.items() if index < desired_replicas]
    return replace(
        inputs.progress or SetUpdateProgress(),
        updated_pod_cliques_count=sum(each.updated_cliques for each in present),
        total_pod_cliques_count=len(list_standalone_cliques(template)) * desired_replicas,
        updated_pod_clique_scaling_groups_count=sum(each.updated_groups for each in present),
        total_pod_clique_scaling_groups_count=len(groups) * desired_replicas,
    )


def _summarize_gangs(gangs: Iterable[PodGang]) -> tuple[PodGangSummary, ...]:
    live = [each for each in gangs if each.metadata.deletion_timestamp is None]
    few = len(live) <= _MAX_GANGS_WITH_CONDITIONS
    return tuple(
        PodGangSummary(
            name=each.metadata.name,
            phase=each.status.phase,
            conditions=each.status.conditions if few else (),
        )
        for each in sorted(live, key=lambda each: each.metadata.name)
    )


def _build_selector(set_name: str) -> str:
    return f"{names.MANAGED_BY}={names.OPERATOR},{names.PART_OF}={set_name}"
