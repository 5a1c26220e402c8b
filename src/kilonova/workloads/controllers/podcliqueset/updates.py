"""Which replicas of a set are updated, and when the update ends. Pure.

A replica that is selected gets the newest revision; it stays selected until all of its pods have
that revision, it is available, and as many of its pods are ready as before. No replica is selected
while that would leave fewer than `replicas - maxUnavailable` available; replicas that are
unavailable anyway are updated first. An *unplaced* replica is not waited for and does not count as
unavailable: one that has never been available, or that a scheduler finds no nodes for while as many
replicas are available as when the update started. A replica that has lost its nodes through the
update itself is waited for: otherwise one replica after another could be lost. An update is in
progress while anything is outdated, whatever the reason: a change, a second change during the
update, a rollback, or a change of the strategy from OnDelete.
"""

from collections.abc import Mapping, Sequence, Set
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.grove import PodCliqueSet
from kilonova.api.grove.podcliqueset import SetUpdateProgress, UpdatingReplica
from kilonova.api.times import format_rfc3339
from kilonova.workloads.controllers.podcliqueset.replica_state import ReplicaState
from kilonova.workloads.update_strategy import (
    is_on_delete,
    is_update_open,
    resolve_set_max_surge,
    resolve_set_max_unavailable,
)


def advance_update(
    set_: PodCliqueSet, hash_: str, replicas: Mapping[int, ReplicaState], now: datetime
) -> SetUpdateProgress | None:
    """The progress of the update and the replicas that are updated now; its counts are not computed
    here.

    `hash_` is the hash of the newest revision; `replicas` are the desired ones including surge.
    """
    status = set_.status
    edited = status.current_generation_hash not in ("", hash_)
    outdated = any(each.outdated for each in replicas.values())
    time = format_rfc3339(now)
    progress = status.update_progress
    if is_on_delete(set_):
        if edited:
            return SetUpdateProgress(update_started_at=time, update_ended_at=time)
        return _end_update(progress, time) if is_update_open(progress) else progress
    if edited or (outdated and not is_update_open(progress)):
        updating = progress.currently_updating if progress else ()
        updating = tuple(replace(each, update_started_at=time) for each in updating)
        available_at_start = (
            progress.available_replicas_at_start if progress and is_update_open(progress) else None
        )
        progress = SetUpdateProgress(
            update_started_at=time,
            available_replicas_at_start=_count_available(set_, replicas)
            if available_at_start is None
            else available_at_start,
            currently_updating=updating,
        )
    if progress is None or not is_update_open(progress):
        return progress
    unplaced = _list_unplaced_replicas(set_, replicas, progress, now)
    updating = _select_replicas_to_update(
        set_, replicas, unplaced, progress.currently_updating, time
    )
    missing = set_.spec.replicas - len(unplaced) - sum(each.available for each in replicas.values())
    if not outdated and not updating and (not resolve_set_max_surge(set_) or missing <= 0):
        return _end_update(progress, time)
    return replace(progress, currently_updating=updating)


def compute_unplaced_recheck(
    progress: SetUpdateProgress | None, replicas: Mapping[int, ReplicaState], now: datetime
) -> datetime | None:
    """When a replica that is being updated may come to count as unplaced."""
    updating = progress.currently_updating if progress else ()
    states = (replicas.get(each.replica_index) for each in updating)
    times = (each.unplaced_from for each in states if each is not None and each.unplaced_from)
    return min((each for each in times if each > now), default=None)


def _end_update(progress: SetUpdateProgress | None, time: str) -> SetUpdateProgress:
    return replace(progress or SetUpdateProgress(), update_ended_at=time, currently_updating=())


def _select_replicas_to_update(
    set_: PodCliqueSet,
    replicas: Mapping[int, ReplicaState],
    unplaced: Set[int],
    current: Sequence[UpdatingReplica],
    time: str,
) -> tuple[UpdatingReplica, ...]:
    limit = resolve_set_max_unavailable(set_) + resolve_set_max_surge(set_)
    updating = [
        each for each in current if not _is_replica_done(replicas.get(each.replica_index), unplaced)
    ]
    selected = {each.replica_index for each in updating}
    available = sum(each.available and each.index not in selected for each in replicas.values())
    spare = available - (set_.spec.replicas - len(unplaced) - resolve_set_max_unavailable(set_))
    outdated = (each for each in replicas.values() if each.outdated and each.index not in selected)
    for each in sorted(outdated, key=_update_order):
        if len(updating) >= limit:
            break
        if each.available:
            if spare <= 0:
                continue
            spare -= 1
        updating.append(UpdatingReplica(replica_index=each.index, update_started_at=time))
    return tuple(updating)


def _list_unplaced_replicas(
    set_: PodCliqueSet,
    replicas: Mapping[int, ReplicaState],
    progress: SetUpdateProgress,
    now: datetime,
) -> frozenset[int]:
    """The requested replicas that are unplaced."""
    requested = set_.spec.replicas
    available_at_start = progress.available_replicas_at_start
    nothing_lost = available_at_start is not None and _count_available(set_, replicas) >= min(
        available_at_start, requested
    )
    return frozenset(
        each.index
        for each in replicas.values()
        if each.index < requested
        and each.present
        and not each.available
        and (
            not each.was_available
            or (nothing_lost and each.unplaced_from is not None and each.unplaced_from <= now)
        )
    )


def _count_available(set_: PodCliqueSet, replicas: Mapping[int, ReplicaState]) -> int:
    """How many replicas are available, without surge replicas."""
    return sum(each.available for each in replicas.values() if each.index < set_.spec.replicas)


def _is_replica_done(replica: ReplicaState | None, unplaced: Set[int]) -> bool:
    """Whether the update of a replica is done, or the replica is no longer desired."""
    if replica is None:
        return True
    is_restored = replica.available and not replica.has_lost_pods
    return replica.updated and (is_restored or replica.index in unplaced)


def _update_order(replica: ReplicaState) -> tuple[bool, bool, int]:
    """Sorts replicas first that have the least to lose."""
    return replica.scheduled, not replica.breached, replica.index
