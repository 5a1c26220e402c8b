"""Potential victims of a preemptor, by cost.

A **unit** is evicted together: a whole gang, or one surplus pod. Units come in order of cost: lower
priority first, surplus pods before whole gangs, less lost work before more.

Most gangs without capacity are not entitled to any victim: this is derived from the usage of queues
alone. Units are built only of gangs that may be evicted, lazily and in order of cost.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.model.cluster import Cluster, RunningGang, gang_charges
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.label_columns import Flags, Rows
from kilonova.scheduler.core.preemption.entitlement import (
    Entitlement,
    EvictionUnit,
    UnitCost,
    sum_charges,
)
from kilonova.scheduler.core.preemption.rules import (
    Preemptor,
    is_borrowing,
    is_within_deserved,
    split_queue_paths,
)
from kilonova.scheduler.core.queueing.ledger import Ledger

_MAX_REJECTED_UNITS = 2048
"""After this number of units that the gang may not evict, the search stops."""


class VictimCandidates:
    """The units of all running gangs, by queue and cost.

    Valid for one scheduling cycle: gangs placed in the same cycle are left out, so that none is
    evicted in the cycle in which it was placed.
    """

    def __init__(self, cluster: Cluster, now: float, just_placed: Collection[str] = ()) -> None:
        self._cluster = cluster
        self._now = now
        self._just_placed = just_placed
        self._pod_budgets: dict[str, tuple[str, ...]] = {}
        """Disruption budgets of the pods of units, even while the pods are removed."""
        self._units_by_gang: dict[str, list[EvictionUnit]] = {}
        self._preemptible_by_queue: defaultdict[str, list[RunningGang]] | None = None
        self._priority_levels: dict[tuple[str, bool], list[tuple[int, _PriorityLevel]]] = {}
        """By queue, and whether it is the preemptor's."""

    def entitlement_of(self, gang: Gang, *, enforce_limits: bool = True) -> Entitlement:
        """What a gang may evict; without `enforce_limits`, as if queues had no limits."""
        preemptor = Preemptor(gang.queue, gang_charges(gang), gang.priority)
        sources = tuple(
            each
            for each in self._find_source_queues(preemptor)
            if self._group_by_priority(each, preemptor.queue)
        )
        return Entitlement(
            self._cluster,
            gang,
            self._now,
            self._pod_budgets,
            enforce_limits=enforce_limits,
            sources=sources,
        )

    def take_units(
        self, entitlement: Entitlement, rows: Rows | None, useful_rows: Flags | None
    ) -> Iterator[EvictionUnit]:
        """Units that may be evicted, one by one, of gangs on some rows, or anywhere, and on a
        useful row. Each is counted as taken: a queue never loses what it deserves, and no
        disruption budget is exceeded."""
        rejected = 0
        for unit in (
            self._iter_units_by_cost(entitlement) if rows is None else self._list_units_on(rows)
        ):
            if not self._is_useful(unit, useful_rows):
                continue
            if entitlement.can_take(unit):
                entitlement.take(unit)
                yield unit
            elif (rejected := rejected + 1) == _MAX_REJECTED_UNITS:
                return

    def iter_possible_units(
        self, entitlement: Entitlement, rows: Rows | None, useful_rows: Flags | None
    ) -> Iterator[EvictionUnit]:
        """Units that may be evicted, or might be together with others."""
        rejected = 0
        for unit in (
            self._iter_units_by_cost(entitlement) if rows is None else self._list_units_on(rows)
        ):
            running_gang = self._cluster.running_gangs.get(unit.gang)
            if running_gang is not None and running_gang.gang.queue in entitlement.source_queues:
                helps = self._is_useful(unit, useful_rows) or entitlement.is_helped_by(unit)
                if helps and entitlement.could_take(unit):
                    yield unit
                elif helps and (rejected := rejected + 1) == _MAX_REJECTED_UNITS:
                    return

    def take_units_over_limit(self, entitlement: Entitlement) -> Iterator[EvictionUnit]:
        """Units that may be evicted, until no limit is exceeded; each is counted as taken."""
        if not entitlement.exceeded_limits:
            return
        for unit in self._iter_units_by_cost(entitlement):
            if entitlement.is_relieved_by(unit) and entitlement.can_take(unit):
                entitlement.take(unit)
                yield unit
                if not entitlement.exceeded_limits:
                    return

    def iter_sufficient_units(self, entitlement: Entitlement) -> Iterator[EvictionUnit]:
        """Units that may be evicted, after one of which no limit is exceeded."""
        rejected = 0
        for unit in self._iter_units_by_cost(entitlement):
            if not entitlement.is_satisfied_by(unit):
                continue
            if entitlement.can_take(unit):
                yield unit
            elif (rejected := rejected + 1) == _MAX_REJECTED_UNITS:
                return

    def has_candidates_on(self, entitlement: Entitlement, rows: Rows) -> bool:
        """Whether a gang on some rows is a potential victim, by its queue and priority."""
        running_gangs, sources, preemptor = (
            self._cluster.running_gangs,
            entitlement.source_queues,
            entitlement.preemptor,
        )
        for row in map(int, rows):
            for placement in self._cluster.snapshot.pods_on[row].values():
                running_gang = running_gangs.get(placement.gang)
                if running_gang is None or running_gang.gang.queue not in sources:
                    continue
                if (
                    running_gang.gang.queue != preemptor.queue
                    or running_gang.gang.priority < preemptor.priority
                ):
                    return True
        return False

    def charge_disruption_budgets(self, units: Iterable[EvictionUnit]) -> None:
        """Deducts the pods of evicted units from their disruption budgets."""
        budgets = self._cluster.budgets
        for unit in units:
            for pod in unit.pods:
                for budget in self._pod_budgets.get(pod, ()):
                    budgets[budget] = budgets.get(budget, 0) - 1

    def _find_source_queues(self, preemptor: Preemptor) -> tuple[str, ...]:
        """Queues with potential victims, derived without examining any gang. Evicting other gangs
        may entitle the preemptor to reclaim: this is assumed."""
        used = self._cluster.used
        priorities = self._cluster.priorities
        weaker = any(each < preemptor.priority for each in priorities.get(preemptor.queue, ()))
        found = [preemptor.queue] if weaker else []
        if not is_within_deserved(used, preemptor.queue, preemptor.amounts, ignore_usage=weaker):
            return tuple(found)
        path = used.forest.path(preemptor.queue)
        relieved = set(path) if weaker else set[str]()
        others = [each for each in priorities if is_borrowing(used, preemptor, each)]
        ways = {each: split_queue_paths(used, preemptor.queue, each)[0] for each in others}
        for queue in sorted(others, key=lambda each: len(ways[each])):
            if _can_gain(preemptor, used, ways[queue], relieved):
                found.append(queue)
                relieved.update(path[len(ways[queue]) :])
        return tuple(found)

    def _iter_units_by_cost(self, entitlement: Entitlement) -> Iterator[EvictionUnit]:
        """Units of all potential victims, the cheapest first."""
        lines: list[Iterator[EvictionUnit]] = []
        for queue in entitlement.source_queues:
            levels = self._group_by_priority(queue, entitlement.preemptor.queue)
            if queue == entitlement.preemptor.queue:
                levels = [each for each in levels if each[0] < entitlement.preemptor.priority]
            lines.append(chain.from_iterable(level.iter_units() for _, level in levels))
        return lines[0] if len(lines) == 1 else heapq.merge(*lines, key=_cost_of)

    def _list_units_on(self, rows: Rows) -> list[EvictionUnit]:
        """Units of gangs on rows, the cheapest first."""
        pods_on = self._cluster.snapshot.pods_on
        names = {placement.gang for row in map(int, rows) for placement in pods_on[row].values()}
        running_gangs = self._cluster.running_gangs
        found: list[EvictionUnit] = []
        for name in sorted(names):
            if name in running_gangs and self._is_evictable(running_gangs[name]):
                found.extend(self._get_units(running_gangs[name]))
        return sorted(found, key=_cost_of)

    def _group_by_priority(
        self, source_queue: str, preemptor_queue: str
    ) -> "list[tuple[int, _PriorityLevel]]":
        """The gangs of a queue by priority, lowest first, without those that are protected for the
        whole cycle: no units are built of them."""
        own = source_queue == preemptor_queue
        if (source_queue, own) not in self._priority_levels:
            found: defaultdict[int, list[RunningGang]] = defaultdict(list)
            for running_gang in self._list_unprotected(source_queue, same_queue=own):
                found[running_gang.gang.priority].append(running_gang)
            self._priority_levels[source_queue, own] = [
                (priority, _PriorityLevel(found[priority], self._now, self._refresh_units))
                for priority in sorted(found)
            ]
        return self._priority_levels[source_queue, own]

    def _list_unprotected(self, queue: str, *, same_queue: bool) -> list[RunningGang]:
        """Gangs of a queue that are preemptible, past the minimum run time for preemption or
        reclaim, and have a pod that its disruption budgets allow to evict."""
        if self._preemptible_by_queue is None:
            self._preemptible_by_queue = defaultdict(list)
            for running_gang in self._cluster.running_gangs.values():
                if running_gang.gang.preemptible:
                    self._preemptible_by_queue[running_gang.gang.queue].append(running_gang)
        spec, now = self._cluster.forest.queues.get(queue), self._now
        least = 0.0
        if spec is not None:
            least = spec.preempt_min_runtime if same_queue else spec.reclaim_min_runtime
        old = [
            each for each in self._preemptible_by_queue.get(queue, ()) if now - each.since >= least
        ]
        placements, budgets = self._cluster.snapshot.placements, self._cluster.budgets
        if all(left > 0 for left in budgets.values()):
            return old
        # A loop over all running gangs: kept inline and minimal for speed.
        found: list[RunningGang] = []
        allows_eviction: dict[tuple[str, ...], bool] = {(): True}
        for running_gang in old:
            for pod in running_gang.pods:
                placement = placements.get(pod)
                pod_budgets = placement.member.budgets if placement is not None else ()
                if pod_budgets not in allows_eviction:
                    allows_eviction[pod_budgets] = all(
                        budgets.get(each, 0) > 0 for each in pod_budgets
                    )
                if allows_eviction[pod_budgets]:
                    found.append(running_gang)
                    break
        return found

    def _refresh_units(self, name: str, unit: EvictionUnit | None) -> list[EvictionUnit]:
        """Current units of a gang; or the current form of one of its units."""
        running_gang = self._cluster.running_gangs.get(name)
        if running_gang is None or not self._is_evictable(running_gang):
            return []
        if unit is None:
            return self._get_units(running_gang)
        if all(pod in running_gang.pods for pod in unit.pods):
            return [unit]
        return self._get_units(running_gang)[-1:] if unit.is_whole_gang else []

    def _is_evictable(self, running_gang: RunningGang) -> bool:
        return running_gang.gang.preemptible and running_gang.gang.name not in self._just_placed

    def _get_units(self, running_gang: RunningGang) -> list[EvictionUnit]:
        name = running_gang.gang.name
        known = self._units_by_gang.get(name)
        if known is None or len(known[-1].pods) != len(running_gang.pods):
            known = self._units_by_gang[name] = list_units(running_gang, self._now)
            placements = self._cluster.snapshot.placements
            for pod in running_gang.pods:
                placement = placements.get(pod)
                if placement is not None and placement.member.budgets:
                    self._pod_budgets[pod] = placement.member.budgets
        return known

    def _is_useful(self, unit: EvictionUnit, useful_rows: Flags | None) -> bool:
        placements = self._cluster.snapshot.placements
        if useful_rows is None:
            return True
        return any(
            pod not in placements or bool(useful_rows[placements[pod].row]) for pod in unit.pods
        )


class _PriorityLevel:
    """Gangs of one queue and priority. Their units are ordered lazily, once; units that no longer
    exist are skipped."""

    def __init__(
        self,
        running_gangs: Sequence[RunningGang],
        now: float,
        refresh: "Callable[[str, EvictionUnit | None], list[EvictionUnit]]",
    ) -> None:
        self._refresh = refresh
        self._remaining = _order_units_by_cost(running_gangs, now, refresh)
        self._ordered: list[EvictionUnit] = []
        self._first_valid = 0

    def iter_units(self) -> Iterator[EvictionUnit]:
        index = self._first_valid
        while True:
            if index == len(self._ordered):
                more = next(self._remaining, None)
                if more is None:
                    return
                self._ordered.append(more)
            now = self._refresh(self._ordered[index].gang, self._ordered[index])
            if now:
                self._ordered[index] = now[0]
                yield now[0]
            elif index == self._first_valid:
                self._first_valid += 1
            index += 1


def list_units(running_gang: RunningGang, now: float) -> list[EvictionUnit]:
    """Each surplus pod of a gang, and the whole gang, which comes last."""
    age = max(0.0, now - running_gang.since)
    units = [
        _build_unit(running_gang, (pod,), age, is_whole_gang=False)
        for pod in _iter_surplus_pods(running_gang)
    ]
    units.append(_build_unit(running_gang, tuple(running_gang.pods), age, is_whole_gang=True))
    return units


def _iter_surplus_pods(running_gang: RunningGang) -> Iterator[str]:
    for group in running_gang.gang.groups:
        members = (*group.placed_members, *group.members)
        placed = [member.pod for member in members if member.pod in running_gang.pods]
        yield from placed[group.minimum :]


def _build_unit(
    running_gang: RunningGang, pods: tuple[str, ...], age: float, *, is_whole_gang: bool
) -> EvictionUnit:
    amounts = sum_charges(running_gang, pods)
    gang = running_gang.gang
    gpus, name = amounts.get(GPU, 0), gang.name if is_whole_gang else pods[0]
    cost = gang.priority, is_whole_gang, age * gpus, gpus, len(pods), name
    return EvictionUnit(gang.name, pods, cost, amounts)


def _order_units_by_cost(
    running_gangs: Sequence[RunningGang],
    now: float,
    refresh: Callable[[str, EvictionUnit | None], list[EvictionUnit]],
) -> Iterator[EvictionUnit]:
    """Units of gangs of one priority by cost: surplus pods, then whole gangs. Costs of whole gangs
    are compared before any unit is built: there may be a hundred thousand."""
    # Loops over all running gangs: kept inline and minimal for speed.
    elastic = [
        each
        for each in running_gangs
        if len(each.gang.groups) != 1 or each.gang.groups[0].minimum < len(each.pods)
    ]
    surplus = (unit for each in elastic for unit in refresh(each.gang.name, None)[:-1])
    yield from sorted(surplus, key=_cost_of)
    pods = np.array([len(each.pods) for each in running_gangs])
    of_pods = [amounts.get(GPU, 0) for each in running_gangs for amounts in each.pods.values()]
    gpus = np.add.reduceat(np.array(of_pods, np.int64), np.cumsum(pods) - pods)
    work = np.maximum(0.0, now - np.array([each.since for each in running_gangs])) * gpus
    order = np.lexsort((pods, gpus, work))
    costs = np.stack((work, gpus, pods))[:, order]
    starts = np.flatnonzero((costs[:, 1:] != costs[:, :-1]).any(axis=0)) + 1
    for equal in np.split(order, starts):
        at: list[int] = equal.tolist()
        names = [running_gangs[each].gang.name for each in at]
        heapq.heapify(names)
        while names:
            yield from refresh(heapq.heappop(names), None)[-1:]


def _can_gain(
    preemptor: Preemptor, used: Ledger, gaining: Sequence[str], relieved: Collection[str]
) -> bool:
    return bool(gaining) and all(
        is_within_deserved(used, each, preemptor.amounts, ignore_usage=each in relieved)
        for each in gaining
    )


def _cost_of(unit: EvictionUnit) -> UnitCost:
    return unit.cost
