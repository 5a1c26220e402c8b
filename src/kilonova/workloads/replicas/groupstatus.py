"""How a scaling group is: its status. Pure."""

from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.durations import parse_duration
from kilonova.api.grove import PodCliqueScalingGroup, PodCliqueScalingGroupStatus, names
from kilonova.api.grove.parts import LastError
from kilonova.api.grove.scalinggroup import ScalingGroupUpdateProgress, SelectedReplicas
from kilonova.api.meta import Condition
from kilonova.api.times import later, parse_time, rfc3339
from kilonova.workloads.cliques.roster import is_current
from kilonova.workloads.conditions import BREACHED, UPDATING, with_condition, without_condition
from kilonova.workloads.keys import incarnation_of
from kilonova.workloads.replicas.observed import Observed
from kilonova.workloads.replicas.units import Unit, Units
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.sets.desire import waits_for_deletion

TERMINATING = "GangTerminationInProgress"


@dataclass(frozen=True, slots=True)
class GroupReport:
    """What is to be told of a group, and when there may be more to tell."""

    status: PodCliqueScalingGroupStatus
    after: float | None = None


def group_report(
    seen: Observed,
    units: Units,
    group: PodCliqueScalingGroup,
    revision: SetRevision,
    now: datetime,
    *,
    terminates: bool = False,
    error: LastError | None = None,
) -> GroupReport:
    """The status of a group; `terminates` if all of the replica is about to be started anew."""
    old = group.status
    progress = _progress(seen, units, old, revision, now)
    is_under_way = progress is not None and progress.update_ended_at is None
    deadline = _deadline(seen, units, progress) if is_under_way else None
    is_stuck = deadline is not None and deadline <= now
    generation = group.metadata.generation
    conditions = _breach(units, old.conditions, is_under_way, generation, now)
    conditions = _termination(units, conditions, terminates, generation, now)
    if progress is not None:
        conditions = _update(conditions, is_under_way, is_stuck, generation, now)
    is_settled = not old.current_pod_clique_set_generation_hash or not (
        is_under_way or any(each.is_outdated for each in units.units)
    )
    status = replace(
        old,
        scheduled_replicas=sum(each.is_scheduled for each in units.units),
        available_replicas=sum(each.is_available for each in units.units),
        updated_replicas=sum(each.is_updated for each in units.units),
        replicas=group.spec.replicas,
        selector=_selector(seen.set_.metadata.name, units.name),
        # What was not done is not told as seen.
        observed_generation=old.observed_generation if error else generation,
        conditions=conditions,
        last_errors=(_kept_error(old, error),) if error else (),
        current_pod_clique_set_generation_hash=(
            revision.hash if is_settled else old.current_pod_clique_set_generation_hash
        ),
        update_progress=progress,
    )
    times = [deadline, *(each.homeless_from for each in units.units if is_under_way)]
    left = [(each - now).total_seconds() for each in times if each is not None and each > now]
    return GroupReport(status, min(left, default=None))


def refused_status(group: PodCliqueScalingGroup, error: LastError) -> PodCliqueScalingGroupStatus:
    """The status of a group of whose replica nothing is done: as it was, and why."""
    return replace(group.status, last_errors=(_kept_error(group.status, error),))


def _progress(
    seen: Observed,
    units: Units,
    old: PodCliqueScalingGroupStatus,
    revision: SetRevision,
    now: datetime,
) -> ScalingGroupUpdateProgress | None:
    """How far the update is; None if there has been none. People end one that waits for them."""
    known, current = old.update_progress, old.current_pod_clique_set_generation_hash
    is_known = known is not None and known.pod_clique_set_generation_hash == revision.hash
    if not is_known and current in ("", revision.hash):
        return known
    time = rfc3339(now)
    is_open = known is not None and known.update_ended_at is None
    before = known.available_replicas_at_start if known is not None and is_open else None
    if before is None:
        # Some may have gone since: what was told last, and what cliques tell, is from before that.
        before = max(units.available, units.unbroken, old.available_replicas)
    progress = (
        known
        if is_known and known is not None
        else ScalingGroupUpdateProgress(
            update_started_at=time,
            pod_clique_set_generation_hash=revision.hash,
            available_replicas_at_start=before,
        )
    )
    if any(each.is_outdated for each in units.units) and not waits_for_deletion(seen.set_):
        progress = replace(progress, update_ended_at=None, available_replicas_at_start=before)
    if progress.update_ended_at is None and (waits_for_deletion(seen.set_) or _is_over(units)):
        progress = replace(progress, update_ended_at=time)
    return replace(
        progress,
        updated_pod_cliques_count=units.updated_cliques,
        total_pod_cliques_count=units.replicas * len(units.template.clique_names),
        ready_replica_indices_selected_to_update=(
            None if progress.update_ended_at else _selected(units)
        ),
    )


def _is_over(units: Units) -> bool:
    """Whether all is updated, and none of it is missed any more."""
    return all(each.is_updated for each in units.units) and (
        units.nothing_lost or all(each.is_available or not each.was_up for each in units.units)
    )


def _selected(units: Units) -> SelectedReplicas | None:
    on_the_way = [
        each.index
        for each in units.units
        if each.was_up and not each.is_outdated and not each.is_available
    ]
    if not on_the_way:
        return None
    done = (each.index for each in units.units if each.is_updated and each.is_available)
    return SelectedReplicas(on_the_way[0], tuple(done))


def _deadline(
    seen: Observed, units: Units, progress: ScalingGroupUpdateProgress | None
) -> datetime | None:
    """When the update counts as stuck unless it gets on: another pod of it becomes ready."""
    how = units.template.rolling_update
    if progress is None or how is None or not how.progress_deadline:
        return None
    steps = [
        condition.last_transition_time
        for unit in units.units
        for name, clique in unit.cliques.items()
        for pod in seen.roster(name).members
        if is_current(clique, pod)
        for condition in pod.status.conditions
        if condition.type == "Ready"
        and condition.status == "True"
        and condition.last_transition_time
    ]
    last = max(map(parse_time, (progress.update_started_at, *steps)))
    return later(last, parse_duration(how.progress_deadline))


def _breach(
    units: Units,
    conditions: tuple[Condition, ...],
    is_under_way: bool,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    message = f"replicas with the pods they need: {units.unbroken}, at least {units.needed} needed"
    if is_under_way:
        told = ("Unknown", "UpdateInProgress", "replicas are being replaced")
    elif units.unbroken < units.needed:
        told = ("True", "InsufficientAvailablePodCliqueScalingGroupReplicas", message)
    else:
        told = ("False", "SufficientAvailablePodCliqueScalingGroupReplicas", message)
    return with_condition(conditions, BREACHED, *told, now, generation)


def _termination(
    units: Units,
    conditions: tuple[Condition, ...],
    terminates: bool,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """Told from before the pods go until enough replicas have come back."""
    if terminates:
        told = ("True", "GangTerminationActive", "all pods of the replica are started anew")
        return with_condition(conditions, TERMINATING, *told, now, generation)
    if sum(map(_has_come_back, units.units)) >= units.needed:
        return without_condition(conditions, TERMINATING)
    return conditions


def _has_come_back(unit: Unit) -> bool:
    return not unit.is_broken and all(
        each.status.healthy_incarnation == incarnation_of(each.metadata)
        for each in unit.cliques.values()
    )


def _update(
    conditions: tuple[Condition, ...],
    is_under_way: bool,
    is_stuck: bool,
    generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    if is_stuck:
        message = "no pod of the new template has got ready for too long"
        told = ("Unknown", "ProgressDeadlineExceeded", message)
    elif is_under_way:
        told = ("True", "UpdateInProgress", "replicas are being replaced")
    else:
        told = ("False", "UpdateCompleted", "no replica is being replaced")
    return with_condition(conditions, UPDATING, *told, now, generation)


def _kept_error(old: PodCliqueScalingGroupStatus, error: LastError) -> LastError:
    """The error with the time when it was first seen."""
    for each in old.last_errors:
        if (each.code, each.description) == (error.code, error.description):
            return each
    return error


def _selector(set_name: str, group: str) -> str:
    """By which an autoscaler finds the pods."""
    return (
        f"{names.MANAGED_BY}={names.OPERATOR},{names.PART_OF}={set_name},"
        f"{names.SCALING_GROUP}={group}"
    )
