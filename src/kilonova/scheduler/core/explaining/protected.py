"""Gangs in whose place another would fit, if they could be pushed out: they are too young, may not
be preempted, or are guarded by a disruption budget."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from kilonova.scheduler.core.cluster import Standing, asked
from kilonova.scheduler.core.explaining import wording
from kilonova.scheduler.core.explaining.trial import Trial
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.rights import (
    Claimant,
    Holder,
    kept_from_preemption,
    kept_from_reclaim,
    may_reclaim,
)

_MOST_PODS = 2048
"""Others than the first so many pods are not looked at."""

Shield = Literal["TooYoung", "NotPreemptible", "Budget"]


@dataclass(frozen=True, slots=True)
class Protected:
    """A gang that keeps its place; `until` is when it is old enough."""

    gang: str
    why: Shield
    until: float | None = None

    def __str__(self) -> str:
        match self.why:
            case "TooYoung":
                return f"{self.gang} (too young until {wording.moment(self.until or 0)})"
            case "NotPreemptible":
                return f"{self.gang} (not preemptible)"
            case "Budget":
                return f"{self.gang} (guarded by a disruption budget)"


def protected_holders(trial: Trial, gang: Gang, now: float) -> tuple[Protected, ...]:
    """The protected gangs, the least important first, that would make enough room together with
    all that may be pushed out; none if even then there is too little."""
    if not trial.evicts:
        return ()
    free, held = _in_reach(trial, gang, now)
    if not held:
        return ()
    held.sort(key=lambda one: (one[0].gang.priority, one[1].gang))
    snapshot = trial.snapshot
    mark = snapshot.mark()
    try:
        released = _release(trial, free)
        if released > _MOST_PODS or trial.fits(gang):
            return ()
        count, step = 0, 1
        while count < len(held) and released < _MOST_PODS:
            released += _release(trial, [standing for standing, _ in held[count : count + step]])
            count, step = count + step, 2 * step
            if trial.fits(gang):
                return tuple(shield for _, shield in held[:count])
        return ()
    finally:
        snapshot.undo(mark)


def protected_below_limits(trial: Trial, gang: Gang, now: float) -> tuple[Protected, ...]:
    """The protected gangs, the least important first, without which no limit would hold the gang
    back, when all are gone that may be pushed out; none if that is not so."""
    if not trial.evicts:
        return ()
    free, held = _in_reach(trial, gang, now)
    used, wanted = trial.cluster.used.copy(), asked(gang)
    for standing in free:
        used.discharge(standing.gang.queue, _amounts(standing))
    if used.blocked(gang.queue, wanted) is None:
        return ()
    found: list[Protected] = []
    for standing, shield in sorted(held, key=lambda one: (one[0].gang.priority, one[1].gang)):
        path = used.forest.path(standing.gang.queue)
        if any(each.queue in path for each in used.broken(gang.queue, wanted)):
            found.append(shield)
            used.discharge(standing.gang.queue, _amounts(standing))
            if used.blocked(gang.queue, wanted) is None:
                return tuple(found)
    return ()


def _in_reach(
    trial: Trial, gang: Gang, now: float
) -> tuple[list[Standing], list[tuple[Standing, Protected]]]:
    """Gangs that would have to make room, and those that would if nothing protected them."""
    used = trial.cluster.used
    claimant = Claimant(gang.queue, asked(gang), gang.priority)
    reclaims = may_reclaim(used, claimant)
    free: list[Standing] = []
    held: list[tuple[Standing, Protected]] = []
    for name, standing in trial.cluster.standing.items():
        other = standing.gang
        mine = other.queue == gang.queue
        if name == gang.name or (other.priority >= gang.priority if mine else not reclaims):
            continue
        keeps = kept_from_preemption if mine else kept_from_reclaim
        amounts = Counter[str]() if mine else _amounts(standing)
        holder = Holder(other.queue, amounts, standing.since, other.priority, other.preemptible)
        match keeps(used, claimant, holder, now):
            case None if _guarded(trial, standing):
                held.append((standing, Protected(name, "Budget")))
            case None:
                free.append(standing)
            case "TooYoung" if keeps(used, claimant, holder, math.inf) is None:
                queue = used.forest.queues[other.queue]
                least = queue.preempt_min_runtime if mine else queue.reclaim_min_runtime
                held.append((standing, Protected(name, "TooYoung", standing.since + least)))
            case "NotPreemptible" if mine:
                held.append((standing, Protected(name, "NotPreemptible")))
            case _:
                pass
    return free, held


def _guarded(trial: Trial, standing: Standing) -> bool:
    guards: Counter[str] = Counter()
    for pod in standing.pods:
        booking = trial.snapshot.bookings.get(pod)
        guards.update(booking.member.budgets if booking is not None else ())
    return any(count > trial.cluster.budgets.get(name, 0) for name, count in guards.items())


def _amounts(standing: Standing) -> Counter[str]:
    total: Counter[str] = Counter()
    for amounts in standing.pods.values():
        total.update(amounts)
    return total


def _release(trial: Trial, standings: list[Standing]) -> int:
    pods = [pod for standing in standings for pod in standing.pods]
    trial.snapshot.release_all(pods)
    return len(pods)
