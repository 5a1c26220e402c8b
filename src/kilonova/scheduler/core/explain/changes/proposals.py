"""The smallest changes that would make a gang schedulable, each verified before it is proposed.

A change is of one kind: not two constraints at once, nor fewer pods and more nodes.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from kilonova.scheduler.core.explain.blocking_constraint import BlockingConstraint
from kilonova.scheduler.core.explain.changes.change import (
    Change,
    DeclareDuration,
    LowerMinimum,
    ProposedChange,
    RaisedLimit,
    RaiseLimits,
    RelaxConstraint,
    Tolerate,
    Wait,
)
from kilonova.scheduler.core.explain.changes.nodes import propose_added_nodes, propose_uncordon
from kilonova.scheduler.core.explain.changes.release import propose_freed_capacity
from kilonova.scheduler.core.explain.diagnosis import CORDON_TAINT
from kilonova.scheduler.core.explain.placement_constraints import list_constraints
from kilonova.scheduler.core.explain.trial_cluster import TrialCluster
from kilonova.scheduler.core.filters.node_filters import FilterReason, untolerated_taints
from kilonova.scheduler.core.model.cluster import gang_charges
from kilonova.scheduler.core.model.gangs import Gang, Group
from kilonova.scheduler.core.model.nodes import Taint
from kilonova.scheduler.core.model.requests import Shape, Toleration
from kilonova.scheduler.core.model.taints import FORBIDDEN_TOLERATION_KEYS
from kilonova.scheduler.core.topology.gang_tree import build_gang_tree

MAX_PROPOSALS = 4
_MAX_TAINTS = 3
_MAX_GROUPS = 4

SizedChanges = Iterator[tuple[Change, int]]


def find_proposals(
    trial: TrialCluster, gang: Gang, blocking: BlockingConstraint, now: float, start: Wait | None
) -> tuple[ProposedChange, ...]:
    """The smallest change first, and a few others. Waiting for the expected start comes last: it
    needs no action."""
    found: list[tuple[int, int, Change]] = []
    for order, search in enumerate(_list_searches(trial, gang, blocking, now)):
        if trial.is_exhausted:
            break
        found.extend((size, order, change) for change, size in search())
    found.sort(key=lambda one: one[:2])
    chosen = [(change, size) for size, _, change in found[:MAX_PROPOSALS]]
    if start is not None and start.gangs:
        chosen = [*chosen[: MAX_PROPOSALS - 1], (start, len(start.gangs))]
    return tuple(ProposedChange(change, size, str(change)) for change, size in chosen)


def _list_searches(
    trial: TrialCluster, gang: Gang, blocking: BlockingConstraint, now: float
) -> list[Callable[[], SizedChanges]]:
    """The searches to run, in the order that decides between changes of one size."""
    match blocking.kind:
        case "InvalidQueue" | "InvalidGang" | "RetryPending":
            return []
        case "QueueLimitReached":
            return [
                lambda: _propose_raised_limits(trial, gang, now),
                lambda: _propose_lower_minimum(trial, gang),
            ]
        case "ReservedForBackfill":
            return [lambda: _propose_duration(trial, gang, blocking, now)]
        case _:
            return [
                lambda: propose_uncordon(trial, gang),
                lambda: _propose_tolerations(trial, gang),
                lambda: _propose_relaxed_constraint(trial, gang),
                lambda: propose_freed_capacity(trial, gang),
                lambda: _propose_lower_minimum(trial, gang),
                lambda: propose_added_nodes(trial, gang),
            ]


def _propose_raised_limits(trial: TrialCluster, gang: Gang, now: float) -> SizedChanges:
    used, requested = trial.cluster.used, gang_charges(gang)
    limits: list[RaisedLimit] = []
    for name in used.forest.path(gang.queue):
        queue = used.forest.queues.get(name)
        for resource, limit in sorted(queue.limit.items()) if queue is not None else ():
            need = used.amounts_of(name).get(resource, 0) + requested.get(resource, 0)
            if requested.get(resource) and need > limit:
                limits.append(RaisedLimit(name, resource, need))
    if limits and (trial.fits(gang) or trial.fits_by_preemption(gang, now, enforce_limits=False)):
        yield RaiseLimits(tuple(limits)), len(limits)


def _propose_duration(
    trial: TrialCluster, gang: Gang, blocking: BlockingConstraint, now: float
) -> SizedChanges:
    assert blocking.start_time is not None
    seconds = int(blocking.start_time - now)
    if seconds > 0:
        yield DeclareDuration(seconds, blocking.gangs[0]), 1


def _propose_tolerations(trial: TrialCluster, gang: Gang) -> SizedChanges:
    snapshot = trial.snapshot
    rows = trial.live_rows()
    nodes_by_taints: dict[tuple[Taint, ...], int] = {}
    for shape in {member.shape for group in gang.groups for member in group.members}:
        tainted = rows[trial.feasibility.rejection_reasons(shape)[rows] == FilterReason.TAINT]
        for number, nodes in enumerate(np.bincount(snapshot.taints[tainted]).tolist()):
            taints = (
                untolerated_taints(shape.tolerations, snapshot.taint_sets[number]) if nodes else ()
            )
            if taints:
                nodes_by_taints[taints] = nodes_by_taints.get(taints, 0) + nodes
    common = sorted(nodes_by_taints, key=lambda taints: (-nodes_by_taints[taints], str(taints)))
    for taints in [each for each in common if _is_tolerable(each)][:_MAX_TAINTS]:
        if trial.is_exhausted:
            return
        if trial.fits(_with_tolerations(gang, taints)):
            groups = tuple(group.name for group in gang.groups if group.needed)
            yield Tolerate(taints, groups), len(taints)
            return


def _is_tolerable(taints: tuple[Taint, ...]) -> bool:
    return CORDON_TAINT not in taints and all(
        each.key not in FORBIDDEN_TOLERATION_KEYS for each in taints
    )


def _with_tolerations(gang: Gang, taints: tuple[Taint, ...]) -> Gang:
    more = tuple(Toleration(each.key, "Equal", each.value, each.effect) for each in taints)
    made: dict[Shape, Shape] = {}

    def add_tolerations(group: Group) -> Group:
        for member in group.members:
            if member.shape not in made:
                tolerations = (*member.shape.tolerations, *more)
                made[member.shape] = replace(member.shape, tolerations=tolerations)
        members = tuple(replace(each, shape=made[each.shape]) for each in group.members)
        return replace(group, members=members)

    return replace(gang, groups=tuple(add_tolerations(group) for group in gang.groups))


def _propose_relaxed_constraint(trial: TrialCluster, gang: Gang) -> SizedChanges:
    """The next broader level with which the gang fits, or none."""
    levels = trial.policy.levels
    for constraint in list_constraints(gang):
        broader: list[str] = []
        if constraint.scope != "GangAntiAffinity" and constraint.level in levels:
            broader = list(reversed(levels[: levels.index(constraint.level)]))
        for level in (*broader, ""):
            if trial.is_exhausted:
                return
            if trial.fits_relaxed(gang, constraint, level):
                yield RelaxConstraint(constraint, level), 1
                break


def _propose_lower_minimum(trial: TrialCluster, gang: Gang) -> SizedChanges:
    """The group that has to give up fewest pods."""
    best: LowerMinimum | None = None
    for group in sorted(gang.groups, key=lambda group: -group.needed)[:_MAX_GROUPS]:
        fewest = len(group.placed_nodes) + 1
        if best is not None:
            fewest = max(fewest, group.minimum - (best.current_minimum - best.minimum) + 1)
        largest = _find_largest_minimum(trial, gang, group, fewest)
        if largest is not None:
            best = LowerMinimum(group.name, largest, group.minimum)
    if best is not None:
        yield best, best.current_minimum - best.minimum


def _find_largest_minimum(trial: TrialCluster, gang: Gang, group: Group, fewest: int) -> int | None:
    """The largest minimum of a group, at least `fewest`, with which a gang fits."""
    used = trial.cluster.used

    def could_fit(minimum: int) -> bool:
        fewer = _with_minimum(gang, group, minimum)
        allowed = used.first_exceeded_limit(gang.queue, gang_charges(fewer)) is None
        return allowed and trial.placer.can_fit(build_gang_tree(fewer))

    bound = _find_largest(could_fit, fewest, group.minimum - 1)
    if bound is None or trial.is_exhausted:
        return None
    if trial.fits_within_limits(_with_minimum(gang, group, bound)):
        return bound
    return _find_largest(
        lambda minimum: (
            not trial.is_exhausted and trial.fits_within_limits(_with_minimum(gang, group, minimum))
        ),
        fewest,
        bound - 1,
    )


def _find_largest(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The largest number for which a condition holds that holds for all smaller ones."""
    if low > high or not holds(low):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _with_minimum(gang: Gang, group: Group, minimum: int) -> Gang:
    fewer = replace(
        group, minimum=minimum, members=group.members[: minimum - len(group.placed_nodes)]
    )
    return replace(gang, groups=tuple(fewer if each is group else each for each in gang.groups))
