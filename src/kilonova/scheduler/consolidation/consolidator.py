"""Migrates pods to free nodes: for a gang that lacks capacity, or to compact the cluster; and among
the MIG instances of nodes whose MIGStrategy allows that (`mig_pools`), whatever the limits.

At every interval a copy of the cluster is searched outside the event loop. Worthwhile migrations
within the limits are executed: capacity is held, the pods are evicted, and their replacements
are bound there. A pod is evicted only if there is capacity for it on another node. After a search
without result, the cluster is not searched again before it changes or some time has passed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import inf

from kilonova.api.podgang import PodGang
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.consolidation.capacity_holds import CapacityHold
from kilonova.scheduler.consolidation.hold_recovery import is_abandoned_migration, restore_holds
from kilonova.scheduler.consolidation.limits import StartedMigration, remaining_budget
from kilonova.scheduler.consolidation.mig_pools import MigPools
from kilonova.scheduler.consolidation.migration_condition import MigrationConditionWriter
from kilonova.scheduler.consolidation.migrator import PodMigrator
from kilonova.scheduler.consolidation.rebalance_recorder import RebalanceRecorder
from kilonova.scheduler.consolidation.search import (
    ConsolidationPlan,
    order_candidates,
    search_consolidation,
    search_mig_rebalancing,
)
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.core.consolidation.mig_rebalancing import MigPool
from kilonova.scheduler.core.consolidation.planner import Consolidation
from kilonova.scheduler.core.decisions import InsufficientCapacity, UnschedulableGang
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scoring.packing_fit import LearnedPackingFit
from kilonova.scheduler.core.scoring.plugins import default_scoring
from kilonova.scheduler.objects.core_v1 import Pod
from kilonova.scheduler.settings import ConsolidationLimits

_RECHECK_SECONDS = 3600.0
"""Seconds after which an unchanged cluster is searched again: protection from preemption ends with
time."""

SearchRunner = Callable[[Callable[[], ConsolidationPlan]], Awaitable[ConsolidationPlan]]
"""Runs a search outside the event loop."""


class Consolidator:
    """A runnable that searches for migrations and has them executed."""

    name = "consolidation"

    def __init__(
        self,
        context: SchedulerContext,
        cache: SchedulerCache,
        migrator: PodMigrator,
        migration_conditions: MigrationConditionWriter,
        fit: LearnedPackingFit,
        run_search: SearchRunner,
        pools: MigPools,
        rebalances: RebalanceRecorder,
    ) -> None:
        """Without limits in the settings only MIG instances are rebalanced, within the default
        limits; migrations of a previous leader are finished."""
        self._cache = cache
        self._migrator = migrator
        self._migration_conditions = migration_conditions
        self._limits = context.settings.consolidation
        self._policy = context.settings.policy
        self._weights = context.settings.weights
        self._fit = fit
        self._now = context.now
        self._errors = context.errors
        self._run_search = run_search
        self._pools = pools
        self._rebalances = rebalances
        self._rebalanced_at: dict[str, float] = {}
        """When each pool was last rebalanced."""
        self._rejected: dict[str, Gang] = {}
        """Gangs that lacked capacity in their last attempt."""
        self._completed: list[StartedMigration] = []
        self._last_searched: object = None
        """The state of the cluster at the last search without result."""
        self._last_searched_at = 0.0
        self._restored: list[CapacityHold] = []
        self._abandoned: list[str] = []
        """Pods that a previous leader announced to migrate and did not evict."""

    def record_rejections(self, rejections: Iterable[UnschedulableGang]) -> None:
        """Record gangs that were unschedulable in a cycle."""
        for rejection in rejections:
            if isinstance(rejection.reason, InsufficientCapacity):
                self._rejected[rejection.gang.name] = rejection.gang

    def restore_holds(self, pods: Sequence[Pod], gangs: Iterable[PodGang]) -> None:
        """Restore the holds of a previous leader, before the first scheduling cycle."""
        now = self._now().timestamp()
        for hold in restore_holds(self._cache.cluster.snapshot, pods, gangs):
            self._migrator.holds.add(hold, now)
            self._restored.append(hold)
        self._abandoned = [pod.key for pod in pods if is_abandoned_migration(pod)]

    async def run(self) -> None:
        """Search forever; migrations in progress at the end are left to the next leader."""
        async with asyncio.TaskGroup() as group:
            for hold in self._restored:
                group.create_task(self._run_contained(self._migrator.wait_for_replacements(hold)))
            group.create_task(self._migration_conditions.withdraw_targets(self._abandoned))
            limits = self._limits or ConsolidationLimits()
            while True:
                await asyncio.sleep(limits.interval)
                await self._run_contained(self._consolidate(limits, group))

    async def _consolidate(self, limits: ConsolidationLimits, group: asyncio.TaskGroup) -> None:
        plan = await self._search(limits)
        holds = None if plan is None else self._migrator.begin_migrations(plan)
        if plan is None or holds is None:
            return
        now = self._now().timestamp()
        self._completed += [
            StartedMigration(now, migration.lost_gpu_seconds)
            for migration in plan.consolidation.migrations
        ]
        if plan.pool is not None:
            self._record_rebalance(plan.pool, plan.gang, holds, now)
        group.create_task(self._run_contained(self._migrator.finish_migrations(plan, holds)))

    def _record_rebalance(
        self, pool: MigPool, gang: Gang | None, holds: Sequence[CapacityHold], now: float
    ) -> None:
        self._rebalanced_at[pool.name] = now
        names = self._cache.cluster.snapshot.names
        pending = "" if gang is None else gang.name
        self._rebalances.start(
            pool.name, self._pools.uids.get(pool.name, ""), holds, names, pending
        )

    async def _run_contained(self, work: Awaitable[None]) -> None:
        await self._errors.contain("consolidation", "", work)

    async def _search(self, limits: ConsolidationLimits) -> ConsolidationPlan | None:
        cache, now = self._cache, self._now().timestamp()
        pools = self._find_due_pools(now)
        if self._limits is None and not pools:
            return None
        holds, snapshot = self._migrator.holds, cache.cluster.snapshot
        arrived = self._fit.arrivals.seen
        budget = remaining_budget(limits, self._completed, len(holds), arrived, now)
        pending = order_candidates(self._gangs_waiting_for_capacity())
        changes, disruption_budgets = snapshot.changes.position, dict(cache.cluster.budgets)
        state = (
            changes,
            cache.capacity_events.count,
            disruption_budgets,
            budget.max_migrations,
            [gang.name for gang in pending],
            pools,
        )
        recheck = min([_RECHECK_SECONDS, *(each.settings.min_interval for each in pools)])
        if not budget.max_migrations or (
            state == self._last_searched and now < self._last_searched_at + recheck
        ):
            return None
        copy, fit = cache.cluster.copy(), self._fit.current_fit(snapshot)
        planner = Planner(copy, default_scoring(fit).with_weights(self._weights), self._policy)
        excluded = {*holds.gang_names, *cache.not_ready}

        def search() -> ConsolidationPlan:
            plan = ConsolidationPlan(Consolidation(), None, copy.snapshot.names)
            if self._limits is not None:
                plan = search_consolidation(
                    copy,
                    planner,
                    pending,
                    budget,
                    now,
                    fragmentation=fit.fragmentation,
                    excluded_gangs=excluded,
                )
            if plan.consolidation.migrations or not pools:
                return plan
            return search_mig_rebalancing(
                copy, planner, pending, pools, budget, now, excluded_gangs=excluded
            )

        plan = await self._run_search(search)
        if plan.consolidation.migrations:
            return plan
        self._last_searched, self._last_searched_at = state, now
        return None

    def _find_due_pools(self, now: float) -> list[MigPool]:
        """Pools that were not rebalanced within their interval."""
        return [
            pool
            for pool in self._pools.read()
            if now >= self._rebalanced_at.get(pool.name, -inf) + pool.settings.min_interval
        ]

    def _gangs_waiting_for_capacity(self) -> Iterable[Gang]:
        """Pending gangs that lack capacity."""
        pending = self._cache.waiting
        self._rejected = {
            name: gang for name, gang in self._rejected.items() if pending.get(name) is gang
        }
        return self._rejected.values()
