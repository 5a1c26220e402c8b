"""Builds the components that consolidate a cluster."""

from dataclasses import dataclass

from kilonova.scheduler.binding.assembly import BindingSubsystem
from kilonova.scheduler.cache.assembly import CacheSubsystem
from kilonova.scheduler.cache.informers import Informers
from kilonova.scheduler.consolidation.consolidator import Consolidator, SearchRunner
from kilonova.scheduler.consolidation.mig_pools import MigPools
from kilonova.scheduler.consolidation.migration_condition import MigrationConditionWriter
from kilonova.scheduler.consolidation.migrator import PodMigrator
from kilonova.scheduler.consolidation.rebalance_recorder import RebalanceRecorder
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.eviction.assembly import EvictionSubsystem


@dataclass(frozen=True, slots=True)
class ConsolidationSubsystem:
    """Searches for migrations and executes them."""

    migrator: PodMigrator
    consolidator: Consolidator

    @staticmethod
    def build(
        context: SchedulerContext,
        informers: Informers,
        caches: CacheSubsystem,
        eviction: EvictionSubsystem,
        binding: BindingSubsystem,
        run_search: SearchRunner,
    ) -> "ConsolidationSubsystem":
        """`run_search` runs a search outside the event loop."""
        cache = caches.scheduler_cache
        conditions = MigrationConditionWriter(context, cache)
        rebalances = RebalanceRecorder(context)
        migrator = PodMigrator(
            context,
            cache,
            binding.binder,
            eviction.evictor,
            eviction.nominations,
            conditions,
            rebalances,
        )
        pools = MigPools(informers.nodes.store, cache)
        consolidator = Consolidator(
            context, cache, migrator, conditions, caches.fit, run_search, pools, rebalances
        )
        return ConsolidationSubsystem(migrator, consolidator)
