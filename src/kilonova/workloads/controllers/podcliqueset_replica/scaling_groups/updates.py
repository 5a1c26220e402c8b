"""Which replicas of a scaling group are updated. Pure."""

from collections.abc import Sequence, Set

from kilonova.workloads.controllers.podcliqueset_replica.scaling_groups.state import GroupReplica


def select_replicas_to_update(
    group_replicas: Sequence[GroupReplica],
    *,
    replicas: int,
    required_replicas: int,
    max_unavailable: int,
    unplaced: Set[int] = frozenset(),
) -> frozenset[int]:
    """Indexes of the outdated group replicas that may be replaced now.

    Unavailable ones are replaced at once. Then available ones, lowest index first, as long as fewer
    than `max_unavailable` are missing because of the update, and enough are available before each
    step. An available surge replica makes up for a missing one. Replicas that have never been
    available, and `unplaced` ones, are not waited for: there may be no capacity for them.
    """
    selected = {each.index for each in group_replicas if each.is_outdated and not each.is_available}
    requested, surge = group_replicas[:replicas], group_replicas[replicas:]
    missing = sum(
        each.was_available and not each.is_available and each.index not in unplaced
        for each in requested
    )
    missing -= sum(each.is_available for each in surge)
    available = sum(each.is_available for each in group_replicas)
    for each in group_replicas:
        if not (each.is_outdated and each.is_available):
            continue
        if missing >= max_unavailable or available < required_replicas:
            break
        selected.add(each.index)
        missing += 1
        available -= 1
    return frozenset(selected)
