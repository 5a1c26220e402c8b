"""Gangs by whose preemption another would fit, if they were not protected: by their minimum run
time, as not preemptible, or by a disruption budget."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from kilonova.scheduler.core.explain import formatting
from kilonova.scheduler.core.explain.trial_cluster import TrialCluster
from kilonova.scheduler.core.model.cluster import RunningGang, gang_charges
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.preemption.rules import (
    PotentialVictim,
    Preemptor,
    can_reclaim,
    find_preemption_protection,
    find_reclaim_protection,
)

_MAX_PODS = 2048
"""Maximum number of pods considered."""

ProtectionReason = Literal["MinRuntime", "NotPreemptible", "DisruptionBudget"]


@dataclass(frozen=True, slots=True)
class ProtectedVictim:
    """A gang that is protected; `until` is the end of its minimum run time."""

    gang: str
    reason: ProtectionReason
    until: float | None = None

    def __str__(self) -> str:
        match self.reason:
            case "MinRuntime":
                return f"{self.gang} (protected until {formatting.format_time(self.until or 0)})"
            case "NotPreemptible":
                return f"{self.gang} (not preemptible)"
            case "DisruptionBudget":
                return f"{self.gang} (protected by a disruption budget)"


def find_protected_victims(
    trial: TrialCluster, gang: Gang, now: float
) -> tuple[ProtectedVictim, ...]:
    """The protected gangs, lowest priority first, whose capacity would suffice together with that
    of all gangs that may be preempted; empty if it would not."""
    if not trial.can_preempt:
        return ()
    free, protected = _classify_victims(trial, gang, now)
    if not protected:
        return ()
    protected.sort(key=lambda one: (one[0].gang.priority, one[1].gang))
    snapshot = trial.snapshot
    savepoint = snapshot.begin_trial()
    try:
        released = _remove_gangs(trial, free)
        if released > _MAX_PODS or trial.fits(gang):
            return ()
        count, step = 0, 1
        while count < len(protected) and released < _MAX_PODS:
            released += _remove_gangs(
                trial, [running_gang for running_gang, _ in protected[count : count + step]]
            )
            count, step = count + step, 2 * step
            if trial.fits(gang):
                return tuple(victim for _, victim in protected[:count])
        return ()
    finally:
        snapshot.rollback(savepoint)


def find_protected_under_limits(
    trial: TrialCluster, gang: Gang, now: float
) -> tuple[ProtectedVictim, ...]:
    """The protected gangs, lowest priority first, without which no queue limit would be exceeded
    once all gangs that may be preempted are evicted; empty if limits would still be exceeded."""
    if not trial.can_preempt:
        return ()
    free, protected = _classify_victims(trial, gang, now)
    used, requested = trial.cluster.used.copy(), gang_charges(gang)
    for running_gang in free:
        used.discharge(running_gang.gang.queue, _sum_charges(running_gang))
    if used.first_exceeded_limit(gang.queue, requested) is None:
        return ()
    found: list[ProtectedVictim] = []
    for running_gang, victim in sorted(
        protected, key=lambda one: (one[0].gang.priority, one[1].gang)
    ):
        path = used.forest.path(running_gang.gang.queue)
        if any(each.queue in path for each in used.exceeded_limits(gang.queue, requested)):
            found.append(victim)
            used.discharge(running_gang.gang.queue, _sum_charges(running_gang))
            if used.first_exceeded_limit(gang.queue, requested) is None:
                return tuple(found)
    return ()


def _classify_victims(
    trial: TrialCluster, gang: Gang, now: float
) -> tuple[list[RunningGang], list[tuple[RunningGang, ProtectedVictim]]]:
    """Gangs that may be preempted, and those that may not because they are protected."""
    used = trial.cluster.used
    preemptor = Preemptor(gang.queue, gang_charges(gang), gang.priority)
    reclaims = can_reclaim(used, preemptor)
    free: list[RunningGang] = []
    protected: list[tuple[RunningGang, ProtectedVictim]] = []
    for name, running_gang in trial.cluster.running_gangs.items():
        other = running_gang.gang
        same_queue = other.queue == gang.queue
        if name == gang.name or (other.priority >= gang.priority if same_queue else not reclaims):
            continue
        find_protection = find_preemption_protection if same_queue else find_reclaim_protection
        amounts = Counter[str]() if same_queue else _sum_charges(running_gang)
        victim = PotentialVictim(
            other.queue, amounts, running_gang.since, other.priority, other.preemptible
        )
        match find_protection(used, preemptor, victim, now):
            case None if _is_over_disruption_budget(trial, running_gang):
                protected.append((running_gang, ProtectedVictim(name, "DisruptionBudget")))
            case None:
                free.append(running_gang)
            case "MinRuntime" if find_protection(used, preemptor, victim, math.inf) is None:
                queue = used.forest.queues[other.queue]
                least = queue.preempt_min_runtime if same_queue else queue.reclaim_min_runtime
                protected.append(
                    (running_gang, ProtectedVictim(name, "MinRuntime", running_gang.since + least))
                )
            case "NotPreemptible" if same_queue:
                protected.append((running_gang, ProtectedVictim(name, "NotPreemptible")))
            case _:
                pass
    return free, protected


def _is_over_disruption_budget(trial: TrialCluster, running_gang: RunningGang) -> bool:
    guards: Counter[str] = Counter()
    for pod in running_gang.pods:
        placement = trial.snapshot.placements.get(pod)
        guards.update(placement.member.budgets if placement is not None else ())
    return any(count > trial.cluster.budgets.get(name, 0) for name, count in guards.items())


def _sum_charges(running_gang: RunningGang) -> Counter[str]:
    total: Counter[str] = Counter()
    for amounts in running_gang.pods.values():
        total.update(amounts)
    return total


def _remove_gangs(trial: TrialCluster, running_gangs: list[RunningGang]) -> int:
    pods = [pod for running_gang in running_gangs for pod in running_gang.pods]
    trial.snapshot.remove_pods(pods)
    return len(pods)
