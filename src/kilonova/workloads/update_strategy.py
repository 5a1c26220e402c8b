"""Helpers over `spec.updateStrategy` and `status.updateProgress`. Pure."""

from kilonova.api.grove import PodCliqueSet, names
from kilonova.api.grove.podcliqueset import SetRollingUpdate, SetUpdateProgress
from kilonova.api.int_or_percent import resolve_int_or_percent, resolve_max_surge
from kilonova.api.meta import Metadata
from kilonova.workloads.keys import get_label_index


def count_desired_replicas(set_: PodCliqueSet) -> int:
    """How many replicas there should be now: the requested ones and surge replicas."""
    return set_.spec.replicas + count_surge_replicas(set_, set_.status.update_progress)


def count_surge_replicas(set_: PodCliqueSet, progress: SetUpdateProgress | None) -> int:
    """How many surge replicas there are while an update is in progress."""
    if not is_update_open(progress) or is_on_delete(set_):
        return 0
    return resolve_set_max_surge(set_)


def resolve_set_max_surge(set_: PodCliqueSet) -> int:
    """How many surge replicas an update may have."""
    return resolve_max_surge(get_rolling_update(set_).max_surge, set_.spec.replicas)


def resolve_set_max_unavailable(set_: PodCliqueSet) -> int:
    """How many replicas may be unavailable because of an update; at least 1 without surge."""
    share = resolve_int_or_percent(get_rolling_update(set_).max_unavailable, set_.spec.replicas, 1)
    return max(share, 0 if resolve_set_max_surge(set_) else 1)


def get_rolling_update(set_: PodCliqueSet) -> SetRollingUpdate:
    """The rolling update parameters of a set, or their defaults."""
    strategy = set_.spec.update_strategy
    return (strategy.rolling_update if strategy else None) or SetRollingUpdate()


def is_on_delete(set_: PodCliqueSet) -> bool:
    """Whether outdated pods are replaced only after a user has deleted them."""
    strategy = set_.spec.update_strategy
    return strategy is not None and strategy.type == "OnDelete"


def is_coherent(set_: PodCliqueSet) -> bool:
    """Whether pods of two revisions must never run together in a replica."""
    return get_rolling_update(set_).coherent and not is_on_delete(set_)


def is_update_open(progress: SetUpdateProgress | None) -> bool:
    """Whether an update has started and not ended."""
    return progress is not None and progress.update_ended_at is None


def is_replica_updating(set_: PodCliqueSet, index: int) -> bool:
    """Whether a replica is being updated."""
    return index in list_updating_replicas(set_)


def list_updating_replicas(set_: PodCliqueSet) -> frozenset[int]:
    """Indexes of the replicas that are being updated."""
    progress = set_.status.update_progress
    updating = () if progress is None else progress.currently_updating
    return frozenset(each.replica_index for each in updating if each.update_ended_at is None)


def is_surplus(child: Metadata, desired_replicas: int) -> bool:
    """Whether an object belongs to a surplus replica and is not being deleted yet."""
    index = get_label_index(child, names.SET_REPLICA_INDEX)
    return index is not None and index >= desired_replicas and child.deletion_timestamp is None
