"""What keeps a gang from its place, in one sentence.

It is found by doing without: what makes the gang fit when it is left away is what binds.
"""

from functools import reduce

import numpy as np

from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.cluster import asked
from kilonova.scheduler.core.devices import WHOLE
from kilonova.scheduler.core.explaining import wording
from kilonova.scheduler.core.explaining.binding import Binding
from kilonova.scheduler.core.explaining.constraints import (
    constraints,
    loosened,
)
from kilonova.scheduler.core.explaining.judging_domains import (
    domains_that_bind,
    neighbours_that_bind,
)
from kilonova.scheduler.core.explaining.nearest import Demand, Place, everywhere
from kilonova.scheduler.core.explaining.protected import protected_below_limits, protected_holders
from kilonova.scheduler.core.explaining.tallies import CLAIMED, short_of, tally
from kilonova.scheduler.core.explaining.trial import Trial
from kilonova.scheduler.core.filters import Reason
from kilonova.scheduler.core.flaws import Flaw
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.ledgers import Blocked
from kilonova.scheduler.core.nearness import objections
from kilonova.scheduler.core.parts import tree
from kilonova.scheduler.core.plan import NoRoom, SchedulerError, Why
from kilonova.scheduler.core.queues import Problem
from kilonova.scheduler.core.reserving import Reservation


def binding_constraint(
    trial: Trial, gang: Gang, why: Why, now: float, reservation: Reservation | None
) -> Binding:
    """What keeps a gang from its place; `gang` asks only for what it needs."""
    match why:
        case Problem():
            return Binding("QueueFault", str(why), queue=why.queue)
        case Flaw():
            return Binding("GangFault", str(why))
        case Blocked():
            return _limit(trial, gang, why, now)
        case NoRoom() | SchedulerError():
            blocked = trial.cluster.used.blocked(gang.queue, asked(gang))
    if blocked is not None:  # by now, or for what is beyond the minimum
        return _limit(trial, gang, blocked, now)
    exceeded = isinstance(why, NoRoom) and why.search_exceeded
    if not exceeded and trial.fits(gang):
        return _passed_by(gang, now, reservation)
    return (
        _no_node(trial, gang)
        or _protected(trial, gang, now)
        or _too_little(trial, gang)
        or _repelled(trial, gang)
        or (_not_found() if exceeded else None)
        or _together(trial, gang)
        or domains_that_bind(trial, gang)
    )


def _not_found() -> Binding:
    text = "no place was found within the budget of the search, though there may be one"
    return Binding(
        "SearchBudgetExceeded", f"{text}: fewer groups, shapes or shared claims cost less"
    )


def _limit(trial: Trial, gang: Gang, why: Blocked, now: float) -> Binding:
    limit, used, asked = (
        wording.queue_figure(why.resource, number) for number in (why.limit, why.used, why.asked)
    )
    text = (
        f'queue "{why.queue}" may use {limit} {why.resource}: {used} in use, {asked} more asked for'
    )
    left = max(0, why.limit - why.used)
    shielded = protected_below_limits(trial, gang, now)
    if shielded:
        named = wording.some([str(each) for each in shielded], 2)
        text += f"; those who could make room there may not be pushed out: {named}"
    return Binding(
        "QueueLimit",
        text,
        queue=why.queue,
        resource=why.resource,
        wanted=why.asked,
        room=left,
        lacking=why.over,
        gangs=tuple(each.gang for each in shielded),
        protected=shielded,
    )


def _passed_by(gang: Gang, now: float, kept: Reservation | None) -> Binding:
    ends = None if gang.duration is None else now + gang.duration
    if kept is None or kept.gang.name == gang.name or (ends is not None and ends <= kept.at):
        return Binding("RoomNow", "there is room for it by now: it is tried again")
    text = f"it would fit, but must not delay {kept.gang.name}, which starts at"
    return Binding(
        "Reserved", f"{text} {wording.moment(kept.at)}", gangs=(kept.gang.name,), at=kept.at
    )


def _no_node(trial: Trial, gang: Gang) -> Binding | None:
    rows = trial.rows()
    for leaf in tree(gang).leaves():
        assert leaf.group is not None
        for shape, wanted in leaf.wanted:
            if not (trial.rooms.reasons(shape)[rows] == Reason.FITS).any():
                name = leaf.group.name
                member = next(each for each in leaf.group.members if each.shape == shape)
                counts = tally(trial, name, member).counts
                said = "; ".join(f"{count.nodes} {count.text}" for count in counts[:3])
                text = f"no node may take a pod of group {name}"
                return Binding(
                    "NoNode", f"{text}: {said}" if said else text, group=name, wanted=wanted
                )
    return None


def _protected(trial: Trial, gang: Gang, now: float) -> Binding | None:
    found = protected_holders(trial, gang, now)
    if not found:
        return None
    named = wording.some([str(each) for each in found], 2)
    text = f"it would fit in the place of others that may not be pushed out: {named}"
    return Binding("Protected", text, gangs=tuple(each.gang for each in found), protected=found)


def _too_little(trial: Trial, gang: Gang) -> Binding | None:
    place = everywhere(trial, tree(gang))
    for demand in place.demands:
        if demand.lacking:
            return _lacks(trial, demand, place, alone=len(gang.groups) == demand.wanted == 1)
    return None


def _lacks(trial: Trial, demand: Demand, place: Place, *, alone: bool) -> Binding:
    shape = demand.shape
    snapshot = trial.snapshot
    fits = place.rows[trial.rooms.reasons(shape)[place.rows] == Reason.FITS]
    names, which = short_of(trial, shape, fits)
    resource = names[int(np.bincount(which, minlength=len(names)).argmax())]
    each = dict(shape.requests).get(resource) or _devices(shape)
    lacking = demand.lacking * each
    free = int(np.maximum(snapshot.free[snapshot.column(resource), fits], 0).sum())
    text = (
        ""
        if alone
        else f"group {demand.group} needs room for {wording.pods(demand.wanted)} "
        f"and there is room for {demand.room}: "
    )
    if resource in dict(shape.requests) and free >= demand.wanted * each:
        amount = wording.amount(resource, free)
        text += f"{amount} are free, but in pieces too small for {wording.figure(resource, each)}"
    elif resource == CLAIMED or not each:
        # Claims say what they want of devices, not how many of a kind that nodes have; and how much
        # of a GPU has the memory that is asked for depends on the GPU.
        more = "pod" if demand.lacking == 1 else "pods"
        text += f"{resource} for {demand.lacking} more {more} are needed"
    else:
        are = "is" if lacking == 1 else "are"
        text += f"{wording.figure(resource, lacking)} more {resource} {are} needed"
    return Binding(
        "TooLittleRoom",
        text,
        group=demand.group,
        resource=resource,
        wanted=demand.wanted,
        room=demand.room,
        lacking=lacking,
    )


def _devices(shape: Shape) -> float:
    """How many GPUs a pod has, or which part of them; 0 where that depends on the GPU."""
    if shape.gpu is None:
        return 1
    return shape.gpu.count if shape.gpu.profile else shape.gpu.count * shape.gpu.milli / WHOLE


def _repelled(trial: Trial, gang: Gang) -> Binding | None:
    """Whether pods that stand keep all away from where there is room."""
    rows = trial.rows()
    for group in gang.groups:
        if not group.needed:
            continue
        against = objections(trial.snapshot, group.members[0])
        room = trial.rooms.room(group.members[0].shape)[rows]
        if against is not None and not ((against[rows] == Reason.FITS) & (room > 0)).any():
            return neighbours_that_bind(trial, group)
    return None


def _together(trial: Trial, gang: Gang) -> Binding | None:
    held = constraints(gang)
    if len(held) == 1:
        fits = trial.fits_loosened(gang, held[0])
    else:
        fits = bool(held) and trial.fits(reduce(loosened, held, gang))
    if fits:
        return None
    asked: dict[str, int] = {}
    for leaf in tree(gang).leaves():
        for shape, wanted in leaf.wanted:
            for name, amount in shape.requests:
                asked[name] = asked.get(name, 0) + amount * wanted
    rows = trial.rows()
    snapshot = trial.snapshot
    left = {
        name: int(np.maximum(snapshot.free[snapshot.column(name), rows], 0).sum()) for name in asked
    }
    resource = max(asked, key=lambda name: (asked[name] / max(1, left[name]), name), default="")
    text = "each group has room by itself, but not all together"
    lacking = max(0, asked.get(resource, 0) - left.get(resource, 0))
    if lacking:
        ask, have = asked[resource], left[resource]
        text += (
            f": {wording.amount(resource, ask)} asked for, {wording.figure(resource, have)} free"
        )
    return Binding("Together", text, resource=resource if lacking else "", lacking=lacking)
