"""Which moves are worth it: first for gangs that wait for room, and if none waits, for their own
sake. Pure; what it is given is a copy, or may be changed and put back."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.defragmenting import Consolidation
from kilonova.scheduler.core.fragments import Worth
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.plan import Planner
from kilonova.scheduler.core.relocating import Budget
from kilonova.scheduler.reading.reservations import is_reservation

_TRIED = 4
"""So many gangs that wait are tried in one look."""


@dataclass(frozen=True, slots=True)
class Found:
    """Moves, for whom they make room, and the names of the rows by which they are told."""

    consolidation: Consolidation
    gang: Gang | None
    names: Sequence[str]


def moves_worth_it(
    cluster: Cluster,
    planner: Planner,
    waiting: Sequence[Gang],
    budget: Budget,
    now: float,
    *,
    worth: Worth | None,
    keep: Collection[str],
) -> Found:
    """The moves for the first gang that they help; if nobody waits, those that make nodes empty or
    holes small. Beside those in `keep`, what is reserved stays."""
    names = cluster.snapshot.names
    keep = {*keep, *filter(is_reservation, cluster.standing)}
    for gang in waiting[:_TRIED]:
        found = planner.consolidate(gang, budget, now, keep=keep)
        if found.moves:
            return Found(found, gang, names)
    if waiting:
        return Found(Consolidation(), None, names)
    return Found(planner.consolidate(None, budget, now, worth=worth, keep=keep), None, names)


def in_order(gangs: Iterable[Gang]) -> list[Gang]:
    """Gangs for which room may be made by moves, the most important first. What claims devices is
    left out: who selects them is not asked beside the loop."""
    return sorted(
        (gang for gang in gangs if gang.needed and not _claims(gang)),
        key=lambda gang: (-gang.priority, gang.created, gang.name),
    )


def _claims(gang: Gang) -> bool:
    return any(member.shape.claims for group in gang.groups for member in group.members)
