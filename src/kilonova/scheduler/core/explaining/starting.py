"""When a gang will probably start: room and its queue's limits by the expected ends of others."""

from kilonova.scheduler.core.cluster import asked
from kilonova.scheduler.core.explaining.binding import Binding
from kilonova.scheduler.core.explaining.changes import Wait
from kilonova.scheduler.core.explaining.protected import Protected
from kilonova.scheduler.core.explaining.trial import Trial
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.reserving import Fit, Reservation, earliest, expected_end

_MOST_PODS = 1024
"""What needs more pods to end than these is too far away to tell."""


def expected_start(
    trial: Trial, gang: Gang, binding: Binding, now: float, reservation: Reservation | None
) -> Wait | None:
    """Until when a gang waits if others end as expected, and for whom; None if nobody knows."""
    if reservation is not None and reservation.gang.name == gang.name:
        return Wait(reservation.at, ())
    match binding.kind:
        case "QueueFault" | "GangFault" | "Reserved" | "NoNode":
            return None
        case "RoomNow":
            return Wait(now, ())
        case "QueueLimit":
            fit = _within_limits(trial, gang, now)
        case _:
            fit = earliest(trial.cluster, trial.placer, gang, now, _MOST_PODS)
    ends = None if fit is None else Wait(fit.at, fit.ended)
    youth = _old_enough(trial, gang, binding.protected)
    return youth if youth and (ends is None or youth.until < ends.until) else ends


def _old_enough(trial: Trial, gang: Gang, protected: tuple[Protected, ...]) -> Wait | None:
    """When those that are too young now may be pushed out."""
    times = [each.until for each in protected if each.until is not None]
    if not times or len(times) < len(protected) or not trial.pushes_out(gang, max(times)):
        return None
    return Wait(max(times), tuple(each.gang for each in protected), pushed_out=True)


def _within_limits(trial: Trial, gang: Gang, now: float) -> Fit | None:
    allowed = _allowed(trial, gang, now)
    if allowed is None:
        return None
    standing = trial.cluster.standing
    with trial.without([pod for name in allowed.ended for pod in standing[name].pods]):
        if trial.fits(gang):
            return allowed
    fit = earliest(trial.cluster, trial.placer, gang, now, _MOST_PODS)
    return fit if fit is not None and fit.at >= allowed.at else None


def _allowed(trial: Trial, gang: Gang, now: float) -> Fit | None:
    """When no limit holds the gang back any more."""
    standing = trial.cluster.standing
    used, wanted = trial.cluster.used.copy(), asked(gang)
    ended: list[str] = []
    pods = 0
    others = (each for each in standing.items() if each[0] != gang.name)
    for at, name in sorted((expected_end(one, now), name) for name, one in others):
        ended.append(name)
        pods += len(standing[name].pods)
        for amounts in standing[name].pods.values():
            used.discharge(standing[name].gang.queue, amounts)
        if used.blocked(gang.queue, wanted) is None:
            return Fit(at, tuple(ended))
        if pods > _MOST_PODS:
            return None
    return None
