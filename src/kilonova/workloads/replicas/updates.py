"""Whose turn it is among the replicas of a scaling group. Pure."""

from collections.abc import Sequence, Set

from kilonova.workloads.replicas.units import Unit


def units_to_update(
    units: Sequence[Unit],
    *,
    replicas: int,
    needed: int,
    max_unavailable: int,
    homeless: Set[int] = frozenset(),
) -> frozenset[int]:
    """Indexes of the outdated replicas that may be replaced now.

    Those that do no work, at once. Then those that do, the lowest first, as long as fewer than
    `max_unavailable` are missing because of the update, and enough do work before each step. One
    beyond the `replicas` that are asked for makes up for one that is missing. Replicas that never
    came up are not waited for: there may be no room for them. Nor are the `homeless`.
    """
    chosen = {each.index for each in units if each.is_outdated and not each.is_available}
    asked, extra = units[:replicas], units[replicas:]
    missing = sum(
        each.was_up and not each.is_available and each.index not in homeless for each in asked
    )
    missing -= sum(each.is_available for each in extra)
    available = sum(each.is_available for each in units)
    for each in units:
        if not (each.is_outdated and each.is_available):
            continue
        if missing >= max_unavailable or available < needed:
            break
        chosen.add(each.index)
        missing += 1
        available -= 1
    return frozenset(chosen)
