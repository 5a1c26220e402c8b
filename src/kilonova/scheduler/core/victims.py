"""Who could make room for whom, and what that would cost.

A **unit** is what leaves together: a whole gang, or one pod that a gang has beyond its minimum and
can do without. Units are given out the cheapest first: less important gangs before others, extra
pods before whole gangs, and what has the least work to lose before what has more.

Most gangs that find no place have no right to anybody's: that is known from what queues use and
from the priorities in them, before any running gang is looked at. Where there is a right, units are
made of those gangs alone that come into question, in the order of their cost and no further than
they are asked for.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from kilonova.scheduler.core.cluster import Cluster, Standing, asked
from kilonova.scheduler.core.entitlement import Claim, Cost, Unit, summed
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.labels import Flags, Rows
from kilonova.scheduler.core.ledgers import Ledger
from kilonova.scheduler.core.rights import Claimant, apart, borrows, deserves
from kilonova.scheduler.core.snapshot import GPU

_REFUSED_UNITS = 2048
"""After so many units to which a gang has no right no others are looked at."""


class Victims:
    """The units of all gangs that stand, by queue and cost.

    Good for one round of decisions: newcomers, who got their place in it, are left out, so nobody
    is pushed out in the round in which they came.
    """

    def __init__(self, cluster: Cluster, now: float, newcomers: Collection[str] = ()) -> None:
        self._cluster = cluster
        self._now = now
        self._newcomers = newcomers
        self._guards: dict[str, tuple[str, ...]] = {}
        """Disruption budgets of the pods of which units were made, even while those are gone."""
        self._by_gang: dict[str, list[Unit]] = {}
        self._by_queue: defaultdict[str, list[Standing]] | None = None
        self._levels: dict[tuple[str, bool], list[tuple[int, _Level]]] = {}
        """By queue, and whether that is the one of the gang without a place."""

    def claim(self, gang: Gang, *, limited: bool = True) -> Claim:
        """What a gang may take; as if there were no limits, if it is not limited."""
        claimant = Claimant(gang.queue, asked(gang), gang.priority)
        sources = tuple(
            each for each in self._sources(claimant) if self._by_priority(each, claimant.queue)
        )
        return Claim(self._cluster, gang, self._now, self._guards, limited=limited, sources=sources)

    def of(self, claim: Claim, rows: Rows | None, useful: Flags | None) -> Iterator[Unit]:
        """Units that may be pushed out, one after the other, of gangs that stand on some rows, or
        anywhere, and on a useful one. Each counts as taken: a queue never loses what it deserves,
        no disruption budget is overdrawn."""
        refused = 0
        for unit in self._in_order(claim) if rows is None else self._on(rows):
            if not self._is_useful(unit, useful):
                continue
            if claim.may_take(unit):
                claim.take(unit)
                yield unit
            elif (refused := refused + 1) == _REFUSED_UNITS:
                return

    def possible(self, claim: Claim, rows: Rows | None, useful: Flags | None) -> Iterator[Unit]:
        """Units that may be pushed out, or might be if others were, too."""
        refused = 0
        for unit in self._in_order(claim) if rows is None else self._on(rows):
            standing = self._cluster.standing.get(unit.gang)
            if standing is not None and standing.gang.queue in claim.sources:
                helps = self._is_useful(unit, useful) or claim.helped_by(unit)
                if helps and claim.might_take(unit):
                    yield unit
                elif helps and (refused := refused + 1) == _REFUSED_UNITS:
                    return

    def relieving(self, claim: Claim) -> Iterator[Unit]:
        """Units that may be pushed out, until no limit is broken any more; each counts as taken."""
        if not claim.broken:
            return
        for unit in self._in_order(claim):
            if claim.relieved_by(unit) and claim.may_take(unit):
                claim.take(unit)
                yield unit
                if not claim.broken:
                    return

    def instead(self, claim: Claim) -> Iterator[Unit]:
        """The units that may be pushed out, of which one is to go, and then no limit is broken."""
        refused = 0
        for unit in self._in_order(claim):
            if not claim.settled_by(unit):
                continue
            if claim.may_take(unit):
                yield unit
            elif (refused := refused + 1) == _REFUSED_UNITS:
                return

    def are_on(self, claim: Claim, rows: Rows) -> bool:
        """Whether a gang stands on some rows that might have to make way, by its queue."""
        standing, sources, claimant = self._cluster.standing, claim.sources, claim.claimant
        for row in map(int, rows):
            for booking in self._cluster.snapshot.pods_on[row].values():
                one = standing.get(booking.gang)
                if one is None or one.gang.queue not in sources:
                    continue
                if one.gang.queue != claimant.queue or one.gang.priority < claimant.priority:
                    return True
        return False

    def count_out(self, units: Iterable[Unit]) -> None:
        """Notes what budgets no longer let go when units leave."""
        budgets = self._cluster.budgets
        for unit in units:
            for pod in unit.pods:
                for budget in self._guards.get(pod, ()):
                    budgets[budget] = budgets.get(budget, 0) - 1

    def _sources(self, claimant: Claimant) -> tuple[str, ...]:
        """Queues with gangs that might have to make way, by what is known without looking at any.
        Whom else a gang takes may give it the right to reclaim: that is taken to be so."""
        used = self._cluster.used
        priorities = self._cluster.priorities
        weaker = any(each < claimant.priority for each in priorities.get(claimant.queue, ()))
        found = [claimant.queue] if weaker else []
        if not deserves(used, claimant.queue, claimant.amounts, all_of_it=weaker):
            return tuple(found)
        path = used.forest.path(claimant.queue)
        relieved = set(path) if weaker else set[str]()
        others = [each for each in priorities if borrows(used, claimant, each)]
        ways = {each: apart(used, claimant.queue, each)[0] for each in others}
        for queue in sorted(others, key=lambda each: len(ways[each])):
            if _may_gain(claimant, used, ways[queue], relieved):
                found.append(queue)
                relieved.update(path[len(ways[queue]) :])
        return tuple(found)

    def _in_order(self, claim: Claim) -> Iterator[Unit]:
        """Units of all gangs that might have to make way, the cheapest first."""
        lines: list[Iterator[Unit]] = []
        for queue in claim.sources:
            levels = self._by_priority(queue, claim.claimant.queue)
            if queue == claim.claimant.queue:
                levels = [each for each in levels if each[0] < claim.claimant.priority]
            lines.append(chain.from_iterable(level.units() for _, level in levels))
        return lines[0] if len(lines) == 1 else heapq.merge(*lines, key=_cost)

    def _on(self, rows: Rows) -> list[Unit]:
        """Units of gangs that stand on rows, the cheapest first."""
        pods_on = self._cluster.snapshot.pods_on
        names = {booking.gang for row in map(int, rows) for booking in pods_on[row].values()}
        standing = self._cluster.standing
        found: list[Unit] = []
        for name in sorted(names):
            if name in standing and self._may_go(standing[name]):
                found.extend(self._units(standing[name]))
        return sorted(found, key=_cost)

    def _by_priority(self, queue: str, claimant: str) -> "list[tuple[int, _Level]]":
        """The gangs of a queue by priority, the least important first, without those that nothing
        takes their place in this round: of them no units are made."""
        own = queue == claimant
        if (queue, own) not in self._levels:
            found: defaultdict[int, list[Standing]] = defaultdict(list)
            for standing in self._unprotected(queue, own=own):
                found[standing.gang.priority].append(standing)
            self._levels[queue, own] = [
                (priority, _Level(found[priority], self._now, self._current))
                for priority in sorted(found)
            ]
        return self._levels[queue, own]

    def _unprotected(self, queue: str, *, own: bool) -> list[Standing]:
        """Gangs of a queue that are preemptible, old enough to be preempted in their own queue or
        reclaimed by another, and have a pod that its disruption budgets let go."""
        if self._by_queue is None:
            self._by_queue = defaultdict(list)
            for standing in self._cluster.standing.values():
                if standing.gang.preemptible:
                    self._by_queue[standing.gang.queue].append(standing)
        spec, now = self._cluster.forest.queues.get(queue), self._now
        least = 0.0
        if spec is not None:
            least = spec.preempt_min_runtime if own else spec.reclaim_min_runtime
        old = [each for each in self._by_queue.get(queue, ()) if now - each.since >= least]
        bookings, budgets = self._cluster.snapshot.bookings, self._cluster.budgets
        if all(left > 0 for left in budgets.values()):
            return old
        # This is over all gangs: what is done in it is little, and not in functions.
        found: list[Standing] = []
        lets_go: dict[tuple[str, ...], bool] = {(): True}
        for standing in old:
            for pod in standing.pods:
                booking = bookings.get(pod)
                guards = booking.member.budgets if booking is not None else ()
                if guards not in lets_go:
                    lets_go[guards] = all(budgets.get(each, 0) > 0 for each in guards)
                if lets_go[guards]:
                    found.append(standing)
                    break
        return found

    def _current(self, name: str, unit: Unit | None) -> list[Unit]:
        """Units of a gang as it stands now; or of one of its units what it is now."""
        standing = self._cluster.standing.get(name)
        if standing is None or not self._may_go(standing):
            return []
        if unit is None:
            return self._units(standing)
        if all(pod in standing.pods for pod in unit.pods):
            return [unit]
        return self._units(standing)[-1:] if unit.whole else []

    def _may_go(self, standing: Standing) -> bool:
        return standing.gang.preemptible and standing.gang.name not in self._newcomers

    def _units(self, standing: Standing) -> list[Unit]:
        name = standing.gang.name
        known = self._by_gang.get(name)
        if known is None or len(known[-1].pods) != len(standing.pods):
            known = self._by_gang[name] = units_of(standing, self._now)
            bookings = self._cluster.snapshot.bookings
            for pod in standing.pods:
                booking = bookings.get(pod)
                if booking is not None and booking.member.budgets:
                    self._guards[pod] = booking.member.budgets
        return known

    def _is_useful(self, unit: Unit, useful: Flags | None) -> bool:
        bookings = self._cluster.snapshot.bookings
        if useful is None:
            return True
        return any(pod not in bookings or bool(useful[bookings[pod].row]) for pod in unit.pods)


class _Level:
    """Gangs of one queue and priority. Their units are put in order once, as far as somebody asks
    for them; those that left since are skipped."""

    def __init__(
        self,
        standings: Sequence[Standing],
        now: float,
        current: "Callable[[str, Unit | None], list[Unit]]",
    ) -> None:
        self._current = current
        self._source = _in_order_of_cost(standings, now, current)
        self._known: list[Unit] = []
        self._first = 0

    def units(self) -> Iterator[Unit]:
        index = self._first
        while True:
            if index == len(self._known):
                more = next(self._source, None)
                if more is None:
                    return
                self._known.append(more)
            now = self._current(self._known[index].gang, self._known[index])
            if now:
                self._known[index] = now[0]
                yield now[0]
            elif index == self._first:
                self._first += 1
            index += 1


def units_of(standing: Standing, now: float) -> list[Unit]:
    """Each pod that a gang can do without, and the whole gang, which comes last."""
    age = max(0.0, now - standing.since)
    units = [_unit(standing, (pod,), age, whole=False) for pod in _extras(standing)]
    units.append(_unit(standing, tuple(standing.pods), age, whole=True))
    return units


def _extras(standing: Standing) -> Iterator[str]:
    for group in standing.gang.groups:
        members = (*group.standing, *group.members)
        stands = [member.pod for member in members if member.pod in standing.pods]
        yield from stands[group.minimum :]


def _unit(standing: Standing, pods: tuple[str, ...], age: float, *, whole: bool) -> Unit:
    amounts = summed(standing, pods)
    gang = standing.gang
    gpus, name = amounts.get(GPU, 0), gang.name if whole else pods[0]
    cost = gang.priority, whole, age * gpus, gpus, len(pods), name
    return Unit(gang.name, pods, cost, amounts)


def _in_order_of_cost(
    standings: Sequence[Standing], now: float, current: Callable[[str, Unit | None], list[Unit]]
) -> Iterator[Unit]:
    """Units of gangs of one priority by cost: extra pods, then whole gangs. Costs of whole gangs
    are compared before any unit is made: there may be a hundred thousand."""
    # Each of these loops is over all gangs: what is done in them is little, and not in functions.
    elastic = [
        each
        for each in standings
        if len(each.gang.groups) != 1 or each.gang.groups[0].minimum < len(each.pods)
    ]
    extras = (unit for each in elastic for unit in current(each.gang.name, None)[:-1])
    yield from sorted(extras, key=_cost)
    pods = np.array([len(each.pods) for each in standings])
    of_pods = [amounts.get(GPU, 0) for each in standings for amounts in each.pods.values()]
    gpus = np.add.reduceat(np.array(of_pods, np.int64), np.cumsum(pods) - pods)
    work = np.maximum(0.0, now - np.array([each.since for each in standings])) * gpus
    order = np.lexsort((pods, gpus, work))
    costs = np.stack((work, gpus, pods))[:, order]
    starts = np.flatnonzero((costs[:, 1:] != costs[:, :-1]).any(axis=0)) + 1
    for equal in np.split(order, starts):
        at: list[int] = equal.tolist()
        names = [standings[each].gang.name for each in at]
        heapq.heapify(names)
        while names:
            yield from current(heapq.heappop(names), None)[-1:]


def _may_gain(
    claimant: Claimant, used: Ledger, gaining: Sequence[str], relieved: Collection[str]
) -> bool:
    return bool(gaining) and all(
        deserves(used, each, claimant.amounts, all_of_it=each in relieved) for each in gaining
    )


def _cost(unit: Unit) -> Cost:
    return unit.cost
