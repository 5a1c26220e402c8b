"""Which eviction units a preemptor may take.

A **unit** is evicted together: a whole gang, or one surplus pod. The **entitlement** of a preemptor
depends on the rules of preemption and reclaim, and on the units it has taken before. What counts in
the end is the whole set of victims (`is_entitled_to`): a queue above its deserved amounts may
reclaim only if enough of its own gangs are evicted, too. An entitlement also knows the queue limits
that the preemptor exceeds unless other gangs are evicted.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from kilonova.scheduler.core.model.cluster import Cluster, RunningGang, gang_charges
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.preemption.rules import (
    PotentialVictim,
    Preemptor,
    Protection,
    find_preemption_protection,
    find_reclaim_protection,
    is_within_deserved,
    split_queue_paths,
)
from kilonova.scheduler.core.queueing.ledger import Ledger, LimitExceeded
from kilonova.scheduler.core.queueing.queues import ResourceAmounts

UnitCost = tuple[int, bool, float, int, int, str]
"""Priority, whether a whole gang is evicted, lost GPU-seconds, GPUs, pods, a name. Gangs that have
just started lose nothing yet: of them the smaller is evicted."""


@dataclass(frozen=True, slots=True)
class EvictionUnit:
    """Pods of one gang that are evicted together, and the cost of it."""

    gang: str
    pods: tuple[str, ...]
    cost: UnitCost
    amounts: ResourceAmounts

    @property
    def is_whole_gang(self) -> bool:
        """Whether it is a whole gang."""
        return self.cost[1]


class Entitlement:
    """What a preemptor may take, and what it has taken."""

    def __init__(
        self,
        cluster: Cluster,
        gang: Gang,
        now: float,
        pod_budgets: Mapping[str, tuple[str, ...]],
        *,
        enforce_limits: bool,
        sources: tuple[str, ...] = (),
    ) -> None:
        self.gang = gang
        self.source_queues = sources
        """Queues with potential victims."""
        self._enforce_limits = enforce_limits
        self._cluster = cluster
        self._now = now
        self._pod_budgets = pod_budgets
        self.preemptor = Preemptor(gang.queue, gang_charges(gang), gang.priority)
        self._charged_amounts: ResourceAmounts = self.preemptor.amounts
        """What the gang is charged in its queue, for its actual devices once it is placed."""
        self._used = cluster.used
        self._budgets = cluster.budgets
        self._evicted_pods: set[str] = set()
        self.exceeded_limits = self._find_exceeded_limits()
        """Limits that the gang exceeds unless other gangs are evicted."""

    @property
    def has_helpful_units_elsewhere(self) -> bool:
        """Whether units may help regardless of their node."""
        return bool(self.exceeded_limits or self._queues_above_deserved)

    def without_taken_units(self) -> "Entitlement":
        """The same entitlement, with nothing taken."""
        return Entitlement(
            self._cluster,
            self.gang,
            self._now,
            self._pod_budgets,
            enforce_limits=self._enforce_limits,
            sources=self.source_queues,
        )

    def is_relieved_by(self, unit: EvictionUnit) -> bool:
        """Whether evicting a unit reduces the excess over a limit."""
        return any(self._freed_amount(unit, each) > 0 for each in self.exceeded_limits)

    def is_helped_by(self, unit: EvictionUnit) -> bool:
        """Whether evicting a unit helps regardless of its node: it reduces the excess over a limit,
        or the usage of queues of the gang that use too much to reclaim."""
        if self.exceeded_limits and self.is_relieved_by(unit):
            return True
        return not self._queues_above_deserved.isdisjoint(
            self._used.forest.path(self._queue_of(unit))
        )

    def is_satisfied_by(self, unit: EvictionUnit) -> bool:
        """Whether no limit is exceeded after evicting a unit."""
        return all(self._freed_amount(unit, each) >= each.excess for each in self.exceeded_limits)

    def can_take(self, unit: EvictionUnit) -> bool:
        """Whether the gang may evict a unit, in addition to those taken."""
        running_gang = self._cluster.running_gangs.get(unit.gang)
        if running_gang is None or not all(pod in running_gang.pods for pod in unit.pods):
            return False
        pods, amounts = unit.pods, unit.amounts
        if not self._evicted_pods.isdisjoint(pods):
            pods = tuple(pod for pod in pods if pod not in self._evicted_pods)
            amounts = sum_charges(running_gang, pods)
        if not pods or self._find_protection(self._used, running_gang, amounts) is not None:
            return False
        return self._is_within_budgets(pods, self._budgets)

    def could_take(self, unit: EvictionUnit) -> bool:
        """Whether the gang could evict a unit alone, if its queues used little enough."""
        running_gang = self._cluster.running_gangs.get(unit.gang)
        if running_gang is None or not all(pod in running_gang.pods for pod in unit.pods):
            return False
        kept = self._find_protection(self._cluster.used, running_gang, unit.amounts)
        return kept in (None, "AboveDeserved") and self._is_within_budgets(
            unit.pods, self._cluster.budgets
        )

    def take(self, unit: EvictionUnit) -> None:
        """Counts a unit as evicted."""
        if not self._evicted_pods:
            self._used = self._used.copy()
            self._budgets = dict(self._budgets)
        running_gang = self._cluster.running_gangs[unit.gang]
        for pod in unit.pods:
            if pod not in self._evicted_pods:
                self._evicted_pods.add(pod)
                self._used.discharge(running_gang.gang.queue, running_gang.pods[pod])
                for budget in self._pod_budgets.get(pod, ()):
                    self._budgets[budget] = self._budgets.get(budget, 0) - 1
        if self.exceeded_limits:
            self.exceeded_limits = self._find_exceeded_limits()

    def is_within_limits(self, placements: Iterable[PodPlacement]) -> bool:
        """Whether no limit is exceeded with the devices that the gang would actually have."""
        if not self._enforce_limits:
            return True
        self._charged_amounts = self._cluster.queue_charges(placements)
        return self._used.first_exceeded_limit(self.preemptor.queue, self._charged_amounts) is None

    def is_within_limits_without(
        self, unit: EvictionUnit, placements: Iterable[PodPlacement]
    ) -> bool:
        """Whether no limit is exceeded if only this unit is evicted, with the devices that the gang
        would actually have."""
        if not self._enforce_limits:
            return True
        used = self._used.copy()
        used.discharge(self._queue_of(unit), unit.amounts)
        return (
            used.first_exceeded_limit(self.preemptor.queue, self._cluster.queue_charges(placements))
            is None
        )

    def try_return(
        self, unit: EvictionUnit, pods: Collection[str], other_queues: Iterable[str]
    ) -> bool:
        """Whether pods of a unit that was taken need not be evicted, given that the set taken is
        permitted: no limit is exceeded with them, and the gang stays entitled to the other units,
        whose queues are given. If so, they are counted as running again."""
        queue = self._cluster.running_gangs[unit.gang].gang.queue
        self._count_returned(unit.gang, pods)
        if not self._is_over_limit() and (
            self._used.forest.path(queue)[-1] != self._used.forest.path(self.preemptor.queue)[-1]
            or self._can_still_reclaim(other_queues)
        ):
            return True
        self._count_evicted(unit.gang, pods)
        return False

    def is_entitled_to(
        self, units: Collection[EvictionUnit], placements: Iterable[PodPlacement] | None = None
    ) -> bool:
        """Whether the gang may evict all of some units together, each as if it were the last;
        checked with its requests, or with the devices that it would actually have."""
        amounts = self.preemptor.amounts
        if placements is not None and self._enforce_limits:
            amounts = self._cluster.queue_charges(placements)
        removed = {unit.gang for unit in units if unit.is_whole_gang}
        units = [unit for unit in units if unit.is_whole_gang or unit.gang not in removed]
        used, pods = self._cluster.used.copy(), [pod for unit in units for pod in unit.pods]
        for unit in units:
            used.discharge(self._queue_of(unit), unit.amounts)
        if (
            self._enforce_limits
            and used.first_exceeded_limit(self.preemptor.queue, amounts) is not None
        ):
            return False
        if not self._is_within_budgets(pods, self._cluster.budgets):
            return False
        for unit in units:
            running_gang = self._cluster.running_gangs[unit.gang]
            used.charge(running_gang.gang.queue, unit.amounts)
            if self._find_protection(used, running_gang, unit.amounts) is not None:
                return False
            used.discharge(running_gang.gang.queue, unit.amounts)
        return True

    def _find_protection(
        self, used: Ledger, running_gang: RunningGang, amounts: ResourceAmounts
    ) -> Protection | None:
        gang = running_gang.gang
        victim = PotentialVictim(
            gang.queue, amounts, running_gang.since, gang.priority, gang.preemptible
        )
        find_protection = (
            find_preemption_protection
            if gang.queue == self.preemptor.queue
            else find_reclaim_protection
        )
        return find_protection(used, self.preemptor, victim, self._now)

    def _is_within_budgets(self, pods: Iterable[str], budgets: Mapping[str, int]) -> bool:
        pods_by_budget = Counter(
            budget for pod in pods for budget in self._pod_budgets.get(pod, ())
        )
        return all(budgets.get(name, 0) >= count for name, count in pods_by_budget.items())

    def _can_still_reclaim(self, queues: Iterable[str]) -> bool:
        """Whether the gang may still reclaim from queues, given the current usage."""
        return all(
            is_within_deserved(self._used, name, self.preemptor.amounts)
            for queue in queues
            if queue != self.preemptor.queue
            for name in split_queue_paths(self._used, self.preemptor.queue, queue)[0]
        )

    def _count_returned(self, gang: str, pods: Iterable[str]) -> None:
        running_gang = self._cluster.running_gangs[gang]
        for pod in pods:
            self._evicted_pods.discard(pod)
            self._used.charge(running_gang.gang.queue, running_gang.pods[pod])
            for budget in self._pod_budgets.get(pod, ()):
                self._budgets[budget] += 1

    def _count_evicted(self, gang: str, pods: Iterable[str]) -> None:
        running_gang = self._cluster.running_gangs[gang]
        for pod in pods:
            self._evicted_pods.add(pod)
            self._used.discharge(running_gang.gang.queue, running_gang.pods[pod])
            for budget in self._pod_budgets.get(pod, ()):
                self._budgets[budget] -= 1

    def _queue_of(self, unit: EvictionUnit) -> str:
        return self._cluster.running_gangs[unit.gang].gang.queue

    def _freed_amount(self, unit: EvictionUnit, limit: LimitExceeded) -> int:
        """How much less is charged to the queue of a limit when a unit is evicted."""
        running_gang = self._cluster.running_gangs.get(unit.gang)
        if running_gang is None or limit.queue not in self._used.forest.path(
            running_gang.gang.queue
        ):
            return 0
        return unit.amounts.get(limit.resource, 0)

    @cached_property
    def _queues_above_deserved(self) -> set[str]:
        """Queues of the gang that use too much for it to reclaim, if there is a queue to reclaim
        from."""
        if all(source == self.preemptor.queue for source in self.source_queues):
            return set()
        used, amounts = self._cluster.used, self.preemptor.amounts
        path = used.forest.path(self.preemptor.queue)
        return {name for name in path if not is_within_deserved(used, name, amounts)}

    def _find_exceeded_limits(self) -> tuple[LimitExceeded, ...]:
        if not self._enforce_limits:
            return ()
        return tuple(self._used.exceeded_limits(self.preemptor.queue, self.preemptor.amounts))

    def _is_over_limit(self) -> bool:
        """Whether a limit is exceeded, with the gang's requests or with its actual devices."""
        if not self._enforce_limits:
            return False
        queue = self.preemptor.queue
        return any(
            self._used.first_exceeded_limit(queue, amounts) is not None
            for amounts in (self.preemptor.amounts, self._charged_amounts)
        )


def sum_charges(running_gang: RunningGang, pods: Iterable[str]) -> dict[str, int]:
    """What pods of a gang are charged in its queue."""
    amounts: dict[str, int] = {}
    for pod in pods:
        for name, amount in running_gang.pods[pod].items():
            amounts[name] = amounts.get(name, 0) + amount
    return amounts
