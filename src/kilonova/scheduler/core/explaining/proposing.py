"""The smallest changes that would let a gang in, each tried before it is proposed.

Changes are of one kind each: not two constraints at once, nor fewer pods and more nodes.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from kilonova.scheduler.core.asks import Shape, Toleration
from kilonova.scheduler.core.cluster import asked
from kilonova.scheduler.core.explaining.adding import added_nodes, uncordoned
from kilonova.scheduler.core.explaining.binding import Binding
from kilonova.scheduler.core.explaining.changes import (
    Change,
    DeclareDuration,
    Limit,
    Loosen,
    LowerMinimum,
    Proposal,
    RaiseLimits,
    Tolerate,
    Wait,
)
from kilonova.scheduler.core.explaining.constraints import constraints
from kilonova.scheduler.core.explaining.freeing import freed
from kilonova.scheduler.core.explaining.tallies import CORDON
from kilonova.scheduler.core.explaining.trial import Trial
from kilonova.scheduler.core.filters import Reason, intolerable
from kilonova.scheduler.core.gangs import Gang, Group
from kilonova.scheduler.core.nodes import Taint
from kilonova.scheduler.core.parts import tree
from kilonova.scheduler.core.taints import NEVER_TO_TOLERATE

MOST_PROPOSALS = 4
_MOST_TAINTS = 3
_MOST_GROUPS = 4

Found = Iterator[tuple[Change, int]]


def proposals(
    trial: Trial, gang: Gang, binding: Binding, now: float, start: Wait | None
) -> tuple[Proposal, ...]:
    """The smallest change first, and a few others. To wait for the start comes last: there is
    nothing to do then."""
    found: list[tuple[int, int, Change]] = []
    for order, search in enumerate(_searches(trial, gang, binding, now)):
        if trial.spent:
            break
        found.extend((size, order, change) for change, size in search())
    found.sort(key=lambda one: one[:2])
    chosen = [(change, size) for size, _, change in found[:MOST_PROPOSALS]]
    if start is not None and start.gangs:
        chosen = [*chosen[: MOST_PROPOSALS - 1], (start, len(start.gangs))]
    return tuple(Proposal(change, size, str(change)) for change, size in chosen)


def _searches(trial: Trial, gang: Gang, binding: Binding, now: float) -> list[Callable[[], Found]]:
    """What to look for, in the order that decides between changes of one size."""
    match binding.kind:
        case "QueueFault" | "GangFault" | "RoomNow":
            return []
        case "QueueLimit":
            return [
                lambda: _raised_limits(trial, gang, now),
                lambda: _lowered_minimum(trial, gang),
            ]
        case "Reserved":
            return [lambda: _declared(trial, gang, binding, now)]
        case _:
            return [
                lambda: uncordoned(trial, gang),
                lambda: _tolerated(trial, gang),
                lambda: _loosened(trial, gang),
                lambda: freed(trial, gang),
                lambda: _lowered_minimum(trial, gang),
                lambda: added_nodes(trial, gang),
            ]


def _raised_limits(trial: Trial, gang: Gang, now: float) -> Found:
    used, wanted = trial.cluster.used, asked(gang)
    limits: list[Limit] = []
    for name in used.forest.path(gang.queue):
        queue = used.forest.queues.get(name)
        for resource, limit in sorted(queue.limit.items()) if queue is not None else ():
            need = used.of(name).get(resource, 0) + wanted.get(resource, 0)
            if wanted.get(resource) and need > limit:
                limits.append(Limit(name, resource, need))
    if limits and (trial.fits(gang) or trial.pushes_out(gang, now, limited=False)):
        yield RaiseLimits(tuple(limits)), len(limits)


def _declared(trial: Trial, gang: Gang, binding: Binding, now: float) -> Found:
    assert binding.at is not None
    seconds = int(binding.at - now)
    if seconds > 0:
        yield DeclareDuration(seconds, binding.gangs[0]), 1


def _tolerated(trial: Trial, gang: Gang) -> Found:
    snapshot = trial.snapshot
    rows = trial.rows()
    kept: dict[tuple[Taint, ...], int] = {}
    for shape in {member.shape for group in gang.groups for member in group.members}:
        against = rows[trial.rooms.reasons(shape)[rows] == Reason.TAINT]
        for number, nodes in enumerate(np.bincount(snapshot.taints[against]).tolist()):
            taints = intolerable(shape.tolerations, snapshot.taint_sets[number]) if nodes else ()
            if taints:
                kept[taints] = kept.get(taints, 0) + nodes
    common = sorted(kept, key=lambda taints: (-kept[taints], str(taints)))
    for taints in [each for each in common if _may_be_tolerated(each)][:_MOST_TAINTS]:
        if trial.spent:
            return
        if trial.fits(_tolerating(gang, taints)):
            groups = tuple(group.name for group in gang.groups if group.needed)
            yield Tolerate(taints, groups), len(taints)
            return


def _may_be_tolerated(taints: tuple[Taint, ...]) -> bool:
    return CORDON not in taints and all(each.key not in NEVER_TO_TOLERATE for each in taints)


def _tolerating(gang: Gang, taints: tuple[Taint, ...]) -> Gang:
    more = tuple(Toleration(each.key, "Equal", each.value, each.effect) for each in taints)
    made: dict[Shape, Shape] = {}

    def changed(group: Group) -> Group:
        for member in group.members:
            if member.shape not in made:
                tolerations = (*member.shape.tolerations, *more)
                made[member.shape] = replace(member.shape, tolerations=tolerations)
        members = tuple(replace(each, shape=made[each.shape]) for each in group.members)
        return replace(group, members=members)

    return replace(gang, groups=tuple(changed(group) for group in gang.groups))


def _loosened(trial: Trial, gang: Gang) -> Found:
    """The next broader level that will do, or none."""
    levels = trial.policy.levels
    for constraint in constraints(gang):
        broader: list[str] = []
        if constraint.whose != "Apart" and constraint.level in levels:
            broader = list(reversed(levels[: levels.index(constraint.level)]))
        for level in (*broader, ""):
            if trial.spent:
                return
            if trial.fits_loosened(gang, constraint, level):
                yield Loosen(constraint, level), 1
                break


def _lowered_minimum(trial: Trial, gang: Gang) -> Found:
    """The group that has to give up the fewest pods."""
    best: LowerMinimum | None = None
    for group in sorted(gang.groups, key=lambda group: -group.needed)[:_MOST_GROUPS]:
        fewest = len(group.placed) + 1
        if best is not None:
            fewest = max(fewest, group.minimum - (best.before - best.minimum) + 1)
        largest = _largest_minimum(trial, gang, group, fewest)
        if largest is not None:
            best = LowerMinimum(group.name, largest, group.minimum)
    if best is not None:
        yield best, best.before - best.minimum


def _largest_minimum(trial: Trial, gang: Gang, group: Group, fewest: int) -> int | None:
    """The largest minimum of a group, at least `fewest`, with which a gang gets in."""
    used = trial.cluster.used

    def could(minimum: int) -> bool:
        fewer = _with_minimum(gang, group, minimum)
        allowed = used.blocked(gang.queue, asked(fewer)) is None
        return allowed and trial.placer.could_fit(tree(fewer))

    bound = _largest(could, fewest, group.minimum - 1)
    if bound is None or trial.spent:
        return None
    if trial.admits(_with_minimum(gang, group, bound)):
        return bound
    return _largest(
        lambda minimum: not trial.spent and trial.admits(_with_minimum(gang, group, minimum)),
        fewest,
        bound - 1,
    )


def _largest(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The largest number for which something holds that holds for all below."""
    if low > high or not holds(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _with_minimum(gang: Gang, group: Group, minimum: int) -> Gang:
    fewer = replace(group, minimum=minimum, members=group.members[: minimum - len(group.placed)])
    return replace(gang, groups=tuple(fewer if each is group else each for each in gang.groups))
