"""Whose turn it is in an update. Pure.

A replica whose turn it is gets the newest revision; it keeps its turn until all of its pods are of
that revision, it is available, and as much of it is ready as there was before. Nobody's turn comes
while that would leave fewer replicas available than `replicas - maxUnavailable`; one that is not
available anyway can lose nothing, and goes first. One for which there is no room is not waited
for, nor missed, and the others are updated nevertheless: one that never had its nodes, or for which
a scheduler finds none while as many are available as when the update began. One that the update
itself has cost its nodes is waited for: whoever goes on without it may lose one after another. An
update is under way as long as something is outdated, whatever the reason: an edit, an edit of an
edit, an edit taken back, or a strategy that no longer waits for people.
"""

from collections.abc import Mapping, Sequence, Set
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.grove import PodCliqueSet
from kilonova.api.grove.podcliqueset import SetUpdateProgress, UpdatingReplica
from kilonova.api.times import rfc3339
from kilonova.workloads.sets.desire import (
    is_under_way,
    most_surge,
    most_unavailable,
    waits_for_deletion,
)
from kilonova.workloads.sets.view import ReplicaView


def next_progress(
    set_: PodCliqueSet, hash_: str, replicas: Mapping[int, ReplicaView], now: datetime
) -> SetUpdateProgress | None:
    """How far the update is now, and whose turn it is; its counts are left as they were.

    `hash_` is the newest revision's; `replicas` those that should be there, surge included.
    """
    status = set_.status
    edited = status.current_generation_hash not in ("", hash_)
    outdated = any(each.outdated for each in replicas.values())
    time = rfc3339(now)
    progress = status.update_progress
    if waits_for_deletion(set_):
        if edited:
            return SetUpdateProgress(update_started_at=time, update_ended_at=time)
        return _ended(progress, time) if is_under_way(progress) else progress
    if edited or (outdated and not is_under_way(progress)):
        turns = progress.currently_updating if progress else ()
        kept = tuple(replace(each, update_started_at=time) for each in turns)
        before = (
            progress.available_replicas_at_start if progress and is_under_way(progress) else None
        )
        progress = SetUpdateProgress(
            update_started_at=time,
            available_replicas_at_start=_available(set_, replicas) if before is None else before,
            currently_updating=kept,
        )
    if progress is None or not is_under_way(progress):
        return progress
    homeless = _homeless(set_, replicas, progress, now)
    turns = _turns(set_, replicas, homeless, progress.currently_updating, time)
    missing = set_.spec.replicas - len(homeless) - sum(each.available for each in replicas.values())
    if not outdated and not turns and (not most_surge(set_) or missing <= 0):
        return _ended(progress, time)
    return replace(progress, currently_updating=turns)


def room_doubted_until(
    progress: SetUpdateProgress | None, replicas: Mapping[int, ReplicaView], now: datetime
) -> datetime | None:
    """When a replica whose turn it is may come to count as one that there is no room for."""
    turns = progress.currently_updating if progress else ()
    views = (replicas.get(each.replica_index) for each in turns)
    times = (each.homeless_from for each in views if each is not None and each.homeless_from)
    return min((each for each in times if each > now), default=None)


def _ended(progress: SetUpdateProgress | None, time: str) -> SetUpdateProgress:
    return replace(progress or SetUpdateProgress(), update_ended_at=time, currently_updating=())


def _turns(
    set_: PodCliqueSet,
    replicas: Mapping[int, ReplicaView],
    homeless: Set[int],
    current: Sequence[UpdatingReplica],
    time: str,
) -> tuple[UpdatingReplica, ...]:
    at_most = most_unavailable(set_) + most_surge(set_)
    turns = [each for each in current if not _is_done(replicas.get(each.replica_index), homeless)]
    taken = {each.replica_index for each in turns}
    up = sum(each.available and each.index not in taken for each in replicas.values())
    spare = up - (set_.spec.replicas - len(homeless) - most_unavailable(set_))
    waiting = (each for each in replicas.values() if each.outdated and each.index not in taken)
    for each in sorted(waiting, key=_urgency):
        if len(turns) >= at_most:
            break
        if each.available:
            if spare <= 0:
                continue
            spare -= 1
        turns.append(UpdatingReplica(replica_index=each.index, update_started_at=time))
    return tuple(turns)


def _homeless(
    set_: PodCliqueSet,
    replicas: Mapping[int, ReplicaView],
    progress: SetUpdateProgress,
    now: datetime,
) -> frozenset[int]:
    """Those replicas asked for that there is no room for."""
    asked = set_.spec.replicas
    before = progress.available_replicas_at_start
    nothing_lost = before is not None and _available(set_, replicas) >= min(before, asked)
    return frozenset(
        each.index
        for each in replicas.values()
        if each.index < asked
        and each.present
        and not each.available
        and (
            not each.was_up
            or (nothing_lost and each.homeless_from is not None and each.homeless_from <= now)
        )
    )


def _available(set_: PodCliqueSet, replicas: Mapping[int, ReplicaView]) -> int:
    """How many are available, without those of a surge."""
    return sum(each.available for each in replicas.values() if each.index < set_.spec.replicas)


def _is_done(replica: ReplicaView | None, homeless: Set[int]) -> bool:
    """Whether a turn is over; also that of a replica which there is to be no more."""
    if replica is None:
        return True
    is_back = replica.available and not replica.lacking
    return replica.updated and (is_back or replica.index in homeless)


def _urgency(replica: ReplicaView) -> tuple[bool, bool, int]:
    """Sorts those first that have the least to lose."""
    return replica.scheduled, not replica.breached, replica.index
