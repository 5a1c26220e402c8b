"""What a gang without a place may take from others.

What leaves together is a **unit**: a whole gang, or one pod that a gang has beyond its minimum.
What a gang may take is its **claim**: by right, and as far as what was taken before leaves it one.
In the end it is all that goes together that must be right (`is_lawful`): a queue that uses more
than it deserves may reclaim only if enough of its own gangs really go. A claim also knows the
limits of the gang's queue, and of those above it, that the gang breaks as long as others stay.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from kilonova.scheduler.core.cluster import Cluster, Standing, asked
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.ledgers import Blocked, Ledger
from kilonova.scheduler.core.queues import Amounts
from kilonova.scheduler.core.rights import (
    Claimant,
    Holder,
    Protection,
    apart,
    deserves,
    kept_from_preemption,
    kept_from_reclaim,
)
from kilonova.scheduler.core.snapshot import Booking

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

    @property
    def whole(self) -> bool:
        """Whether it is all of a gang."""
        return self.cost[1]


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
        sources: tuple[str, ...] = (),
    ) -> None:
        self.gang = gang
        self.sources = sources
        """Queues with gangs that might have to make way."""
        self._limited = limited
        self._cluster = cluster
        self._now = now
        self._guards = guards
        self.claimant = Claimant(gang.queue, asked(gang), gang.priority)
        self._amounts: Amounts = self.claimant.amounts
        """What it counts in its queue, by the devices that it would really have once it has any."""
        self._used = cluster.used
        self._budgets = cluster.budgets
        self._gone: set[str] = set()
        self.broken = self._broken()
        """Limits that the gang breaks as long as nobody else goes."""

    @property
    def is_helped_anywhere(self) -> bool:
        """Whether there may be units that help wherever they stand."""
        return bool(self.broken or self._above)

    def renewed(self) -> "Claim":
        """The same claim, with nothing taken."""
        return Claim(
            self._cluster,
            self.gang,
            self._now,
            self._guards,
            limited=self._limited,
            sources=self.sources,
        )

    def relieved_by(self, unit: Unit) -> bool:
        """Whether a limit is broken by less when a unit goes."""
        return any(self._frees(unit, each) > 0 for each in self.broken)

    def helped_by(self, unit: Unit) -> bool:
        """Whether it helps wherever a unit stands that it goes: a limit is broken by less, or the
        gang's queues, which use too much to reclaim from others, use less."""
        if self.broken and self.relieved_by(unit):
            return True
        return not self._above.isdisjoint(self._used.forest.path(self._queue(unit)))

    def settled_by(self, unit: Unit) -> bool:
        """Whether no limit is broken any more when a unit goes."""
        return all(self._frees(unit, each) >= each.over for each in self.broken)

    def may_take(self, unit: Unit) -> bool:
        """Whether a unit has to make way for the gang, beside those that were taken."""
        standing = self._cluster.standing.get(unit.gang)
        if standing is None or not all(pod in standing.pods for pod in unit.pods):
            return False
        pods, amounts = unit.pods, unit.amounts
        if not self._gone.isdisjoint(pods):
            pods = tuple(pod for pod in pods if pod not in self._gone)
            amounts = summed(standing, pods)
        if not pods or self._protection(self._used, standing, amounts) is not None:
            return False
        return self._within_budgets(pods, self._budgets)

    def might_take(self, unit: Unit) -> bool:
        """Whether a unit would have to make way alone, if the gang's queues used little enough."""
        standing = self._cluster.standing.get(unit.gang)
        if standing is None or not all(pod in standing.pods for pod in unit.pods):
            return False
        kept = self._protection(self._cluster.used, standing, unit.amounts)
        return kept in (None, "AboveDeserved") and self._within_budgets(
            unit.pods, self._cluster.budgets
        )

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
                    self._budgets[budget] = self._budgets.get(budget, 0) - 1
        if self.broken:
            self.broken = self._broken()

    def admits(self, bookings: Iterable[Booking]) -> bool:
        """Whether no limit is broken by the devices that the gang would really have."""
        if not self._limited:
            return True
        self._amounts = self._cluster.counted(bookings)
        return self._used.blocked(self.claimant.queue, self._amounts) is None

    def admits_instead(self, unit: Unit, bookings: Iterable[Booking]) -> bool:
        """Whether no limit is broken if this unit alone goes, by the devices that the gang would
        really have."""
        if not self._limited:
            return True
        used = self._used.copy()
        used.discharge(self._queue(unit), unit.amounts)
        return used.blocked(self.claimant.queue, self._cluster.counted(bookings)) is None

    def may_return(self, unit: Unit, pods: Collection[str], others: Iterable[str]) -> bool:
        """Whether pods of a unit that was taken may stay after all, when all that was taken is
        right: no limit is broken with them, and the gang keeps its right to the other units, of
        which the queues are given. They count as there again then."""
        queue = self._cluster.standing[unit.gang].gang.queue
        self._return(unit.gang, pods)
        if not self._exceeds() and (
            self._used.forest.path(queue)[-1] != self._used.forest.path(self.claimant.queue)[-1]
            or self._still_deserves(others)
        ):
            return True
        self._leave(unit.gang, pods)
        return False

    def is_lawful(self, units: Collection[Unit], bookings: Iterable[Booking] | None = None) -> bool:
        """Whether the gang may take all of some units together, each as if it were the last; by
        what was asked for, or by the devices that the gang would really have."""
        amounts = self.claimant.amounts
        if bookings is not None and self._limited:
            amounts = self._cluster.counted(bookings)
        gone = {unit.gang for unit in units if unit.whole}
        units = [unit for unit in units if unit.whole or unit.gang not in gone]
        used, pods = self._cluster.used.copy(), [pod for unit in units for pod in unit.pods]
        for unit in units:
            used.discharge(self._queue(unit), unit.amounts)
        if self._limited and used.blocked(self.claimant.queue, amounts) is not None:
            return False
        if not self._within_budgets(pods, self._cluster.budgets):
            return False
        for unit in units:
            standing = self._cluster.standing[unit.gang]
            used.charge(standing.gang.queue, unit.amounts)
            if self._protection(used, standing, unit.amounts) is not None:
                return False
            used.discharge(standing.gang.queue, unit.amounts)
        return True

    def _protection(self, used: Ledger, standing: Standing, amounts: Amounts) -> Protection | None:
        gang = standing.gang
        holder = Holder(gang.queue, amounts, standing.since, gang.priority, gang.preemptible)
        keeps = kept_from_preemption if gang.queue == self.claimant.queue else kept_from_reclaim
        return keeps(used, self.claimant, holder, self._now)

    def _within_budgets(self, pods: Iterable[str], budgets: Mapping[str, int]) -> bool:
        guarded = Counter(budget for pod in pods for budget in self._guards.get(pod, ()))
        return all(budgets.get(name, 0) >= count for name, count in guarded.items())

    def _still_deserves(self, queues: Iterable[str]) -> bool:
        """Whether the gang has its right to reclaim from queues, as much as is used now."""
        return all(
            deserves(self._used, name, self.claimant.amounts)
            for queue in queues
            if queue != self.claimant.queue
            for name in apart(self._used, self.claimant.queue, queue)[0]
        )

    def _return(self, gang: str, pods: Iterable[str]) -> None:
        standing = self._cluster.standing[gang]
        for pod in pods:
            self._gone.discard(pod)
            self._used.charge(standing.gang.queue, standing.pods[pod])
            for budget in self._guards.get(pod, ()):
                self._budgets[budget] += 1

    def _leave(self, gang: str, pods: Iterable[str]) -> None:
        standing = self._cluster.standing[gang]
        for pod in pods:
            self._gone.add(pod)
            self._used.discharge(standing.gang.queue, standing.pods[pod])
            for budget in self._guards.get(pod, ()):
                self._budgets[budget] -= 1

    def _queue(self, unit: Unit) -> str:
        return self._cluster.standing[unit.gang].gang.queue

    def _frees(self, unit: Unit, limit: Blocked) -> int:
        """How much less counts in the queue of a limit when a unit goes."""
        standing = self._cluster.standing.get(unit.gang)
        if standing is None or limit.queue not in self._used.forest.path(standing.gang.queue):
            return 0
        return unit.amounts.get(limit.resource, 0)

    @cached_property
    def _above(self) -> set[str]:
        """Queues of the gang that use too much for it to reclaim, if there is anything to."""
        if all(source == self.claimant.queue for source in self.sources):
            return set()
        used, amounts = self._cluster.used, self.claimant.amounts
        path = used.forest.path(self.claimant.queue)
        return {name for name in path if not deserves(used, name, amounts)}

    def _broken(self) -> tuple[Blocked, ...]:
        if not self._limited:
            return ()
        return tuple(self._used.broken(self.claimant.queue, self.claimant.amounts))

    def _exceeds(self) -> bool:
        """Whether a limit is broken, by what was asked for or by what the gang would have."""
        if not self._limited:
            return False
        queue = self.claimant.queue
        return any(
            self._used.blocked(queue, amounts) is not None
            for amounts in (self.claimant.amounts, self._amounts)
        )


def summed(standing: Standing, pods: Iterable[str]) -> dict[str, int]:
    """What pods of a gang count in its queue."""
    amounts: dict[str, int] = {}
    for pod in pods:
        for name, amount in standing.pods[pod].items():
            amounts[name] = amounts.get(name, 0) + amount
    return amounts
