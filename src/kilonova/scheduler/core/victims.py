"""Who could make room for whom, and what that would cost.

A **unit** is what leaves together: a whole gang, or one pod that a gang has beyond its minimum and
can do without. Units are given out the cheapest first: less important gangs before others, extra
pods before whole gangs, and what has the least work to lose before what has more.

What a gang may take is its **claim**: by right, and as far as what was taken before leaves it one.
A claim also knows the limits of the gang's queue, and of those above it, that the gang breaks as
long as others stay.
"""

import heapq
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from kilonova.scheduler.core.cluster import Cluster, Standing, asked
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.ledgers import Blocked
from kilonova.scheduler.core.queues import Amounts
from kilonova.scheduler.core.rights import (
    Claimant,
    Holder,
    kept_from_preemption,
    kept_from_reclaim,
    may_reclaim,
)
from kilonova.scheduler.core.snapshot import GPU, Booking

Cost = tuple[int, bool, float, int, int, str]
"""Priority, whether a whole gang goes, GPU-seconds of work that are lost, GPUs, pods, a name. Those
who have just begun lose nothing yet: of them the smaller goes."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods of one gang that leave together, and what their leaving costs."""

    gang: str
    pods: tuple[str, ...]
    cost: Cost
    amounts: Amounts


class Victims:
    """The units of all gangs that stood when it was made, by queue and cost.

    Good for one round of decisions: newcomers, who got their place in it, are left out, so nobody
    is pushed out in the round in which they came.
    """

    def __init__(self, cluster: Cluster, now: float, newcomers: Collection[str] = ()) -> None:
        self._cluster = cluster
        self._now = now
        self._guards = {
            pod: booking.member.budgets
            for pod, booking in cluster.snapshot.bookings.items()
            if booking.member.budgets
        }
        self._by_gang: dict[str, list[Unit]] = {}
        self._by_queue: dict[str, list[tuple[Cost, Unit]]] = {}
        self._firsts: dict[str, int] = {}
        for name, standing in cluster.standing.items():
            if standing.gang.preemptible and name not in newcomers:
                units = self._by_gang[name] = _units_of(standing, now)
                line = self._by_queue.setdefault(standing.gang.queue, [])
                line.extend((unit.cost, unit) for unit in units)
        for line in self._by_queue.values():
            line.sort(key=_by_cost)

    def claim(self, gang: Gang, *, limited: bool = True) -> "Claim":
        """What a gang may take; as if there were no limits, if it is not limited."""
        return Claim(self._cluster, gang, self._now, self._guards, limited=limited)

    def of(self, claim: "Claim", among: Iterable[str]) -> Iterator[Unit]:
        """The units of some gangs that may be pushed out, one after the other. Each counts as
        taken: a queue never loses what it deserves, no disruption budget is overdrawn."""
        found = (unit for name in among for unit in self._by_gang.get(name, ()))
        for unit in sorted(found, key=lambda unit: unit.cost):
            if claim.may_take(unit):
                claim.take(unit)
                yield unit

    def relieving(self, claim: "Claim") -> Iterator[Unit]:
        """Units that may be pushed out, until no limit is broken any more; each counts as taken."""
        if not claim.broken:
            return
        for unit in self._in_order(claim):
            if claim.relieved_by(unit) and claim.may_take(unit):
                claim.take(unit)
                yield unit
                if not claim.broken:
                    return

    def instead(self, claim: "Claim") -> Iterator[Unit]:
        """The units that may be pushed out, of which one is to go, and then no limit is broken."""
        for unit in self._in_order(claim):
            if claim.settled_by(unit) and claim.may_take(unit):
                yield unit

    def count_out(self, units: Iterable[Unit]) -> None:
        """Notes what budgets no longer let go when units leave."""
        budgets = self._cluster.budgets
        for unit in units:
            for pod in unit.pods:
                for budget in self._guards.get(pod, ()):
                    budgets[budget] = budgets.get(budget, 0) - 1

    def _in_order(self, claim: "Claim") -> Iterator[Unit]:
        gang = claim.gang
        lines: list[Iterator[tuple[Cost, Unit]]] = []
        for queue, line in self._by_queue.items():
            if queue == gang.queue:
                weaker = bisect_left(line, gang.priority, key=lambda entry: entry[0][0])
                lines.append(islice(line, self._first(queue), weaker))
            elif claim.reclaims:
                lines.append(islice(line, self._first(queue), None))
        yield from (unit for _, unit in heapq.merge(*lines, key=_by_cost))

    def _first(self, queue: str) -> int:
        """Where in the line of a queue the first gang is that still stands."""
        line, first = self._by_queue[queue], self._firsts.get(queue, 0)
        while first < len(line) and line[first][1].gang not in self._cluster.standing:
            first += 1
        self._firsts[queue] = first
        return first


class Claim:
    """What a gang has the right to, and what it has taken of it."""

    def __init__(
        self,
        cluster: Cluster,
        gang: Gang,
        now: float,
        guards: Mapping[str, tuple[str, ...]],
        *,
        limited: bool,
    ) -> None:
        self.gang = gang
        self._limited = limited
        self._cluster = cluster
        self._now = now
        self._guards = guards
        self._claimant = Claimant(gang.queue, asked(gang), gang.priority)
        self.reclaims = may_reclaim(cluster.used, self._claimant)
        self._used = cluster.used
        self._budgets = cluster.budgets
        self._gone: set[str] = set()
        self.broken = self._broken()
        """Limits that the gang breaks as long as nobody else goes."""

    def relieved_by(self, unit: Unit) -> bool:
        """Whether a limit is broken by less when a unit goes."""
        return any(self._frees(unit, each) > 0 for each in self.broken)

    def settled_by(self, unit: Unit) -> bool:
        """Whether no limit is broken any more when a unit goes."""
        return all(self._frees(unit, each) >= each.over for each in self.broken)

    def may_take(self, unit: Unit) -> bool:
        """Whether a unit has to make way for the gang."""
        standing = self._cluster.standing.get(unit.gang)
        if standing is None or not all(pod in standing.pods for pod in unit.pods):
            return False
        if self._gone.issuperset(unit.pods):
            return False
        gang = standing.gang
        amounts = unit.amounts
        if not self._gone.isdisjoint(unit.pods):
            amounts = _summed(standing, [pod for pod in unit.pods if pod not in self._gone])
        holder = Holder(gang.queue, amounts, standing.since, gang.priority, gang.preemptible)
        keeps = kept_from_preemption if gang.queue == self._claimant.queue else kept_from_reclaim
        if keeps(self._used, self._claimant, holder, self._now) is not None:
            return False
        guarded: dict[str, int] = {}
        for pod in unit.pods:
            if pod not in self._gone:
                for budget in self._guards.get(pod, ()):
                    guarded[budget] = guarded.get(budget, 0) + 1
        return all(self._budgets.get(name, 0) >= count for name, count in guarded.items())

    def take(self, unit: Unit) -> None:
        """Counts a unit as gone."""
        if not self._gone:
            self._used = self._used.copy()
            self._budgets = dict(self._budgets)
        standing = self._cluster.standing[unit.gang]
        for pod in unit.pods:
            if pod not in self._gone:
                self._gone.add(pod)
                self._used.discharge(standing.gang.queue, standing.pods[pod])
                for budget in self._guards.get(pod, ()):
                    self._budgets[budget] -= 1
        if self.broken:
            self.broken = self._broken()

    def admits(self, bookings: Iterable[Booking]) -> bool:
        """Whether no limit is broken by the devices that the gang would really have."""
        if not self._limited:
            return True
        amounts = self._cluster.counted(bookings)
        return self._used.blocked(self._claimant.queue, amounts) is None

    def may_return(self, gang: str, pods: Collection[str]) -> bool:
        """Whether pods that were taken may stay after all: no limit is broken with them. They
        count as there again then."""
        standing = self._cluster.standing[gang]
        amounts = _summed(standing, pods)
        self._used.charge(standing.gang.queue, amounts)
        if self._broken():
            self._used.discharge(standing.gang.queue, amounts)
            return False
        return True

    def _frees(self, unit: Unit, limit: Blocked) -> int:
        """How much less counts in the queue of a limit when a unit goes."""
        standing = self._cluster.standing.get(unit.gang)
        if standing is None or limit.queue not in self._used.forest.path(standing.gang.queue):
            return 0
        return unit.amounts.get(limit.resource, 0)

    def _broken(self) -> tuple[Blocked, ...]:
        if not self._limited:
            return ()
        return tuple(self._used.broken(self._claimant.queue, self._claimant.amounts))


def _units_of(standing: Standing, now: float) -> list[Unit]:
    """The whole gang, and each pod that it can do without."""
    age = max(0.0, now - standing.since)
    units: list[Unit] = []
    for group in standing.gang.groups:
        members = (*group.standing, *group.members)
        stands = [member.pod for member in members if member.pod in standing.pods]
        for pod in stands[group.minimum :]:
            units.append(_unit(standing, (pod,), age, whole=False))
    units.append(_unit(standing, tuple(standing.pods), age, whole=True))
    return units


def _unit(standing: Standing, pods: tuple[str, ...], age: float, *, whole: bool) -> Unit:
    amounts = _summed(standing, pods)
    gang = standing.gang
    gpus, name = amounts.get(GPU, 0), gang.name if whole else pods[0]
    cost = gang.priority, whole, age * gpus, gpus, len(pods), name
    return Unit(gang.name, pods, cost, amounts)


def _summed(standing: Standing, pods: Iterable[str]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for pod in pods:
        for name, amount in standing.pods[pod].items():
            amounts[name] = amounts.get(name, 0) + amount
    return amounts


def _by_cost(entry: tuple[Cost, Unit]) -> Cost:
    return entry[0]
