"""Which replicas of a set there should be. Pure."""

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.grove.podcliqueset import SetRollingUpdate, SetUpdateProgress
from kilonova.api.meta import Metadata
from kilonova.workloads.keys import index_of
from kilonova.workloads.shares import count_of, surge_of


def wanted_replicas(set_: PodCliqueSet) -> int:
    """How many replicas there should be now: the ones asked for, and those of a surge."""
    return set_.spec.replicas + surge(set_, set_.status.update_progress)


def surge(set_: PodCliqueSet, progress: SetUpdateProgress | None) -> int:
    """How many replicas more than asked for there are while an update is under way."""
    if not is_under_way(progress) or waits_for_deletion(set_):
        return 0
    return most_surge(set_)


def most_surge(set_: PodCliqueSet) -> int:
    """How many replicas more than asked for an update may have."""
    return surge_of(rolling_update(set_).max_surge, set_.spec.replicas)


def most_unavailable(set_: PodCliqueSet) -> int:
    """How many replicas may be missing because of an update; without a surge, one at least."""
    share = count_of(rolling_update(set_).max_unavailable, set_.spec.replicas, 1)
    return max(share, 0 if most_surge(set_) else 1)


def rolling_update(set_: PodCliqueSet) -> SetRollingUpdate:
    """How fast outdated replicas are replaced, with what is not said filled in."""
    strategy = set_.spec.update_strategy
    return (strategy.rolling_update if strategy else None) or SetRollingUpdate()


def waits_for_deletion(set_: PodCliqueSet) -> bool:
    """Whether pods are replaced only when somebody deletes them."""
    strategy = set_.spec.update_strategy
    return strategy is not None and strategy.type == "OnDelete"


def is_coherent(set_: PodCliqueSet) -> bool:
    """Whether pods of two versions must never work together in a replica."""
    return rolling_update(set_).coherent and not waits_for_deletion(set_)


def is_under_way(progress: SetUpdateProgress | None) -> bool:
    """Whether an update has begun and not ended."""
    return progress is not None and progress.update_ended_at is None


def is_updating(set_: PodCliqueSet, index: int) -> bool:
    """Whether it is a replica's turn to be updated."""
    return index in replicas_in_turn(set_)


def replicas_in_turn(set_: PodCliqueSet) -> frozenset[int]:
    """The replicas of a set that are being updated."""
    progress = set_.status.update_progress
    turns = () if progress is None else progress.currently_updating
    return frozenset(each.replica_index for each in turns if each.update_ended_at is None)


def is_surplus(child: Metadata, wanted: int) -> bool:
    """Whether an object belongs to a replica that there should not be, and is not going yet."""
    index = index_of(child, names.SET_REPLICA_INDEX)
    return index is not None and index >= wanted and child.deletion_timestamp is None
