"""Executes migrations: holds capacity, evicts the pods, and places their replacements.

A consolidation plan is computed on a copy of the cluster and may be outdated, so all of it is
checked again first. Before the evictions a condition on each pod names the node where capacity is
held: a new leader continues from there (`hold_recovery`).
"""

import asyncio
from collections.abc import Iterable, Iterator

from kilonova.kube.observability.structured_logging import get_logger
from kilonova.scheduler.binding.binder import Binder
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.consolidation.capacity_holds import (
    CapacityHold,
    CapacityHolds,
    hold_for_migration,
    target_nodes,
)
from kilonova.scheduler.consolidation.migration_condition import MigrationConditionWriter
from kilonova.scheduler.consolidation.rebalance_recorder import RebalanceRecorder
from kilonova.scheduler.consolidation.search import ConsolidationPlan
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.convert.gangs.podgangs import (
    is_placed,
    single_pod_gang_name,
    single_pod_key,
)
from kilonova.scheduler.core.consolidation.migration import GangMigration
from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.preemption.victim_candidates import EvictionUnit
from kilonova.scheduler.eviction.evictor import Evictor
from kilonova.scheduler.eviction.nominations import NominationWriter
from kilonova.scheduler.settings import ConsolidationLimits

_log = get_logger(__name__)

_SINGLE_POD_PREFIX = single_pod_gang_name("")


class PodMigrator:
    """The migrations in progress."""

    def __init__(
        self,
        context: SchedulerContext,
        cache: SchedulerCache,
        binder: Binder,
        evictor: Evictor,
        nominations: NominationWriter,
        migration_conditions: MigrationConditionWriter,
        rebalances: RebalanceRecorder,
    ) -> None:
        settings = context.settings
        self._cache = cache
        self._binder = binder
        self._evictor = evictor
        self._nominations = nominations
        self._migration_conditions = migration_conditions
        self._rebalances = rebalances
        self._metrics = context.metrics
        self._now = context.now
        self._eviction_timeout = settings.eviction_timeout
        limits = settings.consolidation or ConsolidationLimits()
        self._replacement_timeout = limits.replacement_timeout
        self.holds = CapacityHolds(cache.cluster)

    def begin_migrations(self, plan: ConsolidationPlan) -> list[CapacityHold] | None:
        """Hold the target capacity, and place the pending gang, if any; None if the plan is
        outdated."""
        if not self._is_still_valid(plan):
            return None
        cache, now = self._cache, self._now().timestamp()
        migrations, pod_placements = plan.consolidation.migrations, plan.consolidation.placements
        cache.release_terminating([pod for migration in migrations for pod in migration.pods])
        holds = [
            hold_for_migration(migration, self._controller_of(migration))
            for migration in migrations
        ]
        for hold in holds:
            self.holds.add(hold, now)
            self._metrics.count_migration("started")
            _log.info("migration started", gang=hold.gang, nodes=self._target_nodes(hold))
        if plan.gang is not None:
            cache.cluster.snapshot.add_pods(pod_placements)
            cache.cluster.record_placed(plan.gang, pod_placements, now)
            cache.assume(GangPlacement(plan.gang, pod_placements))
        return holds

    async def finish_migrations(self, plan: ConsolidationPlan, holds: list[CapacityHold]) -> None:
        """Evict the migrated pods, bind the pending gang, and wait for the replacements."""
        placement = None
        if plan.gang is not None:
            placement = GangPlacement(plan.gang, plan.consolidation.placements)
            self._binder.bind(placement)
        reason = "EvictedForConsolidation" if plan.pool is None else "EvictedForRebalance"
        why = "to free nodes" if plan.pool is None else "to free MIG capacity"
        if plan.gang is not None:
            why = f"to free capacity for {plan.gang.name}"
        try:
            async with asyncio.timeout(self._eviction_timeout):
                if placement is not None:
                    await self._nominations.nominate_gang(placement)
                for hold in holds:
                    await self._migration_conditions.write_targets(self._target_nodes(hold))
        except TimeoutError:
            for hold in holds:
                self._cancel_hold(hold, hold.migrated_pods)
            return
        evicted = await asyncio.gather(*(self._evict_pods(hold, reason, why) for hold in holds))
        if placement is not None and not all(evicted):
            await self._nominations.withdraw_nominations(placement)
        await asyncio.gather(*map(self.wait_for_replacements, holds))

    async def wait_for_replacements(self, hold: CapacityHold) -> None:
        """Keep a hold until its slots are used or the timeout expires."""
        await asyncio.sleep(self._replacement_timeout)
        if self.holds.drop(hold):
            self._finish(hold, "expired")
            _log.warning(
                "replacement pod not created before hold expired",
                gang=hold.gang,
                after=self._replacement_timeout,
            )

    def place_replacements(self) -> Iterator[GangPlacement]:
        """Pending replacements, placed on the capacity held for them."""
        for hold in self.holds:
            gang = self._find_replacement(hold)
            if gang is None:
                continue
            placement = self.holds.hand_over(gang, hold, self._now().timestamp())
            if placement is not None:
                yield placement
                if hold.gang not in self.holds.gang_names:
                    self._finish(hold, "completed")
            else:
                # Placed as any pending gang: what was held for it is no longer available.
                self._rebalances.finish(hold.gang, "expired")

    def _finish(self, hold: CapacityHold, outcome: str) -> None:
        self._metrics.count_migration(outcome)
        self._rebalances.finish(hold.gang, outcome)

    async def _evict_pods(self, hold: CapacityHold, reason: str, purpose: str) -> bool:
        """Evict the pods of a hold; whether all were evicted. The others stay."""
        nodes = self._target_nodes(hold)
        events_by_pod = {
            pod: (
                reason,
                f"evicted {purpose}; capacity for its replacement is held on node {node}",
            )
            for pod, node in nodes.items()
        }
        cost = hold.as_gang.priority, True, 0.0, 0, len(hold.migrated_pods), hold.gang
        unit = EvictionUnit(hold.gang, hold.migrated_pods, cost, {})
        evicted = await self._evictor.evict_victims(
            GangPlacement(hold.as_gang, hold.pod_placements, (unit,)), events_by_pod
        )
        if not evicted:
            find = self._cache.find_pod
            staying = [
                pod for pod in hold.migrated_pods if (found := find(pod)) and is_placed(found)
            ]
            self._cancel_hold(hold, staying)
            await self._migration_conditions.withdraw_targets(staying)
        return evicted

    def _cancel_hold(self, hold: CapacityHold, pods: Iterable[str]) -> None:
        """Cancel the migration of pods that were not evicted."""
        pods = list(pods)
        self._cache.restore_victims(pods)
        self.holds.drop(hold, pods)
        self._finish(hold, "cancelled")
        _log.info("migration cancelled", gang=hold.gang, pods=pods)

    def _target_nodes(self, hold: CapacityHold) -> dict[str, str]:
        return dict(target_nodes(hold, self._cache.cluster.snapshot.names))

    def _controller_of(self, migration: GangMigration) -> str:
        """The UID of the controller of a single pod."""
        pod = self._cache.find_pod(single_pod_key(migration.gang.name))
        owner = pod.metadata.controller if pod is not None else None
        return (
            owner.uid
            if owner is not None and migration.gang.name.startswith(_SINGLE_POD_PREFIX)
            else ""
        )

    def _find_replacement(self, hold: CapacityHold) -> Gang | None:
        pending = self._cache.waiting
        if not hold.owner:
            return pending.get(hold.gang)
        return next((gang for gang in pending.values() if self._is_replacement(gang, hold)), None)

    def _is_replacement(self, gang: Gang, hold: CapacityHold) -> bool:
        if not gang.name.startswith(_SINGLE_POD_PREFIX):
            return False
        pod = self._cache.find_pod(single_pod_key(gang.name))
        owner = pod.metadata.controller if pod is not None else None
        return owner is not None and owner.uid == hold.owner

    # Validation of the plan.

    def _is_still_valid(self, plan: ConsolidationPlan) -> bool:
        cache, snapshot = self._cache, self._cache.cluster.snapshot
        migrations, pod_placements = (
            plan.consolidation.migrations,
            list(plan.consolidation.placements),
        )
        if plan.gang is not None and cache.waiting.get(plan.gang.name) is not plan.gang:
            return False
        if not all(self._are_pods_in_place(migration) for migration in migrations):
            return False
        pod_placements += [
            pod_placement for migration in migrations for pod_placement in migration.targets
        ]
        if not all(self._is_same_node(plan, pod_placement) for pod_placement in pod_placements):
            return False
        trial = snapshot.begin_trial()
        snapshot.remove_pods([pod for migration in migrations for pod in migration.pods])
        fits = self.holds.still_fit(pod_placements)
        snapshot.rollback(trial)
        return fits

    def _are_pods_in_place(self, migration: GangMigration) -> bool:
        """Whether all pods of a migration are still where they were."""
        cache = self._cache
        placements = cache.cluster.snapshot.placements
        for pod_placement in migration.sources:
            pod, current = cache.find_pod(pod_placement.pod), placements.get(pod_placement.pod)
            if pod is None or not is_placed(pod) or pod.key in cache.terminating:
                return False
            if current is None or (current.row, current.gang) != (
                pod_placement.row,
                pod_placement.gang,
            ):
                return False
        running_gang = cache.cluster.running_gangs.get(migration.gang.name)
        return running_gang is not None and running_gang.pods.keys() >= set(migration.pods)

    def _is_same_node(self, plan: ConsolidationPlan, pod_placement: PodPlacement) -> bool:
        """Whether a row still is the same node."""
        names = self._cache.cluster.snapshot.names
        row = pod_placement.row
        alive = bool(self._cache.cluster.snapshot.alive[row]) if row < len(names) else False
        return alive and names[row] == plan.node_names[row]
