"""What is told of a set. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.durations import parse_duration
from kilonova.api.grove import PodCliqueSet, PodCliqueSetStatus, names
from kilonova.api.grove.podcliqueset import PodGangSummary, SetUpdateProgress
from kilonova.api.meta import Condition
from kilonova.api.podgang import PodGang
from kilonova.api.times import later, parse_time
from kilonova.workloads.cliques.completion import COMPLETE, FAILED
from kilonova.workloads.conditions import UPDATING, with_condition, without_condition
from kilonova.workloads.sets.desire import is_under_way, rolling_update, surge
from kilonova.workloads.sets.view import ReplicaView
from kilonova.workloads.templates.lookup import cliques_alone
from kilonova.workloads.templates.topology import Levels

TOPOLOGY_LEVELS_UNAVAILABLE = "TopologyLevelsUnavailable"

_MANY_GANGS = 50
"""A set of more gangs tells only how far each is: with all conditions its status would grow to
more than the API takes."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a status is told from."""

    hash: str
    """Of the newest revision."""
    progress: SetUpdateProgress | None
    replicas: Mapping[int, ReplicaView]
    """All of which anything is there."""
    gangs: Iterable[PodGang]
    levels: Levels


def set_status(set_: PodCliqueSet, facts: Facts, now: datetime) -> PodCliqueSetStatus:
    """The status of a set in which nothing is wrong."""
    wanted = set_.spec.replicas + surge(set_, facts.progress)
    there = [each for index, each in facts.replicas.items() if index < wanted]
    return PodCliqueSetStatus(
        updated_replicas=sum(each.updated for each in there),
        available_replicas=sum(each.available for each in there),
        replicas=set_.spec.replicas,
        observed_generation=set_.metadata.generation,
        conditions=_conditions(set_, facts, now),
        hpa_pod_selector=_selector(set_.metadata.name),
        pod_gang_statuses=_summaries(facts.gangs),
        current_generation_hash=facts.hash,
        update_progress=_counted(set_, facts, wanted) if facts.progress else None,
    )


def finished_at(status: PodCliqueSetStatus) -> datetime | None:
    """When all of a set's work was done, or some of it had failed for good."""
    times = [
        parse_time(each.last_transition_time)
        for each in status.conditions
        if each.type in (COMPLETE, FAILED) and each.status == "True" and each.last_transition_time
    ]
    return min(times, default=None)


def stuck_at(set_: PodCliqueSet, progress: SetUpdateProgress | None) -> datetime | None:
    """When an update that gets no further is said to be stuck; None where it never is."""
    deadline = rolling_update(set_).progress_deadline
    if deadline is None or progress is None or not is_under_way(progress):
        return None
    turns = (each.update_started_at for each in progress.currently_updating)
    moments = [parse_time(each) for each in (progress.update_started_at, *turns) if each]
    return later(max(moments), parse_duration(deadline)) if moments else None


def _conditions(set_: PodCliqueSet, facts: Facts, now: datetime) -> tuple[Condition, ...]:
    result = _topology(set_, facts.levels, now)
    result = _update(result, set_, facts.progress, now)
    return _finish(result, set_, facts.replicas, now)


def _topology(set_: PodCliqueSet, levels: Levels, now: datetime) -> tuple[Condition, ...]:
    conditions, generation = set_.status.conditions, set_.metadata.generation
    if levels.reason is None:
        return without_condition(conditions, TOPOLOGY_LEVELS_UNAVAILABLE)
    return with_condition(
        conditions,
        TOPOLOGY_LEVELS_UNAVAILABLE,
        levels.unavailable,
        levels.reason,
        levels.message,
        now,
        generation,
    )


def _update(
    conditions: tuple[Condition, ...],
    set_: PodCliqueSet,
    progress: SetUpdateProgress | None,
    now: datetime,
) -> tuple[Condition, ...]:
    if progress is None:
        return without_condition(conditions, UPDATING)
    deadline = stuck_at(set_, progress)
    if not is_under_way(progress):
        status, reason, message = "False", "UpdateEnded", "No update is under way"
    elif deadline is not None and deadline <= now:
        status, reason = "Unknown", "ProgressDeadlineExceeded"
        turns = ", ".join(str(each.replica_index) for each in progress.currently_updating)
        limit = rolling_update(set_).progress_deadline
        why = f"not available: replica {turns}" if turns else "too few replicas are available"
        message = f"No progress for {limit}: {why}"
    else:
        status, reason = "True", "RollingRecreate"
        message = "Outdated replicas are being replaced"
    generation = set_.metadata.generation
    return with_condition(conditions, UPDATING, status, reason, message, now, generation)


def _finish(
    conditions: tuple[Condition, ...],
    set_: PodCliqueSet,
    replicas: Mapping[int, ReplicaView],
    now: datetime,
) -> tuple[Condition, ...]:
    asked = [replicas.get(index) for index in range(set_.spec.replicas)]
    complete = bool(asked) and all(each is not None and each.complete for each in asked)
    failed = [each.index for each in asked if each is not None and each.failed]
    generation = set_.metadata.generation
    if complete:
        conditions = with_condition(
            conditions, COMPLETE, "True", "AllCliquesComplete", "All work is done", now, generation
        )
    else:
        conditions = without_condition(conditions, COMPLETE)
    if not failed:
        return without_condition(conditions, FAILED)
    message = f"Pods of a clique failed too often in replica {', '.join(map(str, failed))}"
    return with_condition(
        conditions, FAILED, "True", "BackoffLimitExceeded", message, now, generation
    )


def _counted(set_: PodCliqueSet, facts: Facts, wanted: int) -> SetUpdateProgress:
    template = set_.spec.template
    groups = template.pod_clique_scaling_groups
    there = [each for index, each in facts.replicas.items() if index < wanted]
    return replace(
        facts.progress or SetUpdateProgress(),
        updated_pod_cliques_count=sum(each.updated_cliques for each in there),
        total_pod_cliques_count=len(cliques_alone(template)) * wanted,
        updated_pod_clique_scaling_groups_count=sum(each.updated_groups for each in there),
        total_pod_clique_scaling_groups_count=len(groups) * wanted,
    )


def _summaries(gangs: Iterable[PodGang]) -> tuple[PodGangSummary, ...]:
    live = [each for each in gangs if each.metadata.deletion_timestamp is None]
    few = len(live) <= _MANY_GANGS
    return tuple(
        PodGangSummary(
            name=each.metadata.name,
            phase=each.status.phase,
            conditions=each.status.conditions if few else (),
        )
        for each in sorted(live, key=lambda each: each.metadata.name)
    )


def _selector(set_name: str) -> str:
    return f"{names.MANAGED_BY}={names.OPERATOR},{names.PART_OF}={set_name}"
