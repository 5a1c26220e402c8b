"""The expected start of a gang, from the expected ends of running gangs and the limits of its
queue."""

from kilonova.scheduler.core.backfill.shadow import (
    BackfillReservation,
    EarliestFit,
    expected_end,
    find_earliest_fit,
)
from kilonova.scheduler.core.explain.blocking_constraint import BlockingConstraint
from kilonova.scheduler.core.explain.changes.change import Wait
from kilonova.scheduler.core.explain.protected_victims import ProtectedVictim
from kilonova.scheduler.core.explain.trial_cluster import TrialCluster
from kilonova.scheduler.core.model.cluster import gang_charges
from kilonova.scheduler.core.model.gangs import Gang

_MAX_PODS = 1024
"""If more pods would have to end, no estimate is made."""


def estimate_start(
    trial: TrialCluster,
    gang: Gang,
    blocking: BlockingConstraint,
    now: float,
    reservation: BackfillReservation | None,
) -> Wait | None:
    """Until when a gang is pending if running gangs end as expected, and which ones; None if
    unknown."""
    if reservation is not None and reservation.gang.name == gang.name:
        return Wait(reservation.start_time, ())
    match blocking.kind:
        case "InvalidQueue" | "InvalidGang" | "ReservedForBackfill" | "NoMatchingNode":
            return None
        case "RetryPending":
            return Wait(now, ())
        case "QueueLimitReached":
            fit = _find_fit_within_limits(trial, gang, now)
        case _:
            fit = find_earliest_fit(trial.cluster, trial.placer, gang, now, _MAX_PODS)
    ends = None if fit is None else Wait(fit.start_time, fit.ended_gangs)
    min_runtime_wait = _wait_for_min_runtime(trial, gang, blocking.protected_victims)
    return (
        min_runtime_wait
        if min_runtime_wait and (ends is None or min_runtime_wait.until < ends.until)
        else ends
    )


def _wait_for_min_runtime(
    trial: TrialCluster, gang: Gang, protected_victims: tuple[ProtectedVictim, ...]
) -> Wait | None:
    """When victims within their minimum run time may be preempted."""
    times = [each.until for each in protected_victims if each.until is not None]
    if (
        not times
        or len(times) < len(protected_victims)
        or not trial.fits_by_preemption(gang, max(times))
    ):
        return None
    return Wait(max(times), tuple(each.gang for each in protected_victims), by_preemption=True)


def _find_fit_within_limits(trial: TrialCluster, gang: Gang, now: float) -> EarliestFit | None:
    allowed = _find_limit_release(trial, gang, now)
    if allowed is None:
        return None
    running_gangs = trial.cluster.running_gangs
    with trial.without_pods(
        [pod for name in allowed.ended_gangs for pod in running_gangs[name].pods]
    ):
        if trial.fits(gang):
            return allowed
    fit = find_earliest_fit(trial.cluster, trial.placer, gang, now, _MAX_PODS)
    return fit if fit is not None and fit.start_time >= allowed.start_time else None


def _find_limit_release(trial: TrialCluster, gang: Gang, now: float) -> EarliestFit | None:
    """When no queue limit is exceeded any more."""
    running_gangs = trial.cluster.running_gangs
    used, requested = trial.cluster.used.copy(), gang_charges(gang)
    ended: list[str] = []
    pods = 0
    others = (each for each in running_gangs.items() if each[0] != gang.name)
    for at, name in sorted((expected_end(one, now), name) for name, one in others):
        ended.append(name)
        pods += len(running_gangs[name].pods)
        for amounts in running_gangs[name].pods.values():
            used.discharge(running_gangs[name].gang.queue, amounts)
        if used.first_exceeded_limit(gang.queue, requested) is None:
            return EarliestFit(at, tuple(ended))
        if pods > _MAX_PODS:
            return None
    return None
