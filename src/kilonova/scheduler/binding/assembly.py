"""Builds the components that bind gangs."""

from dataclasses import dataclass

from kilonova.scheduler.binding.binder import Binder
from kilonova.scheduler.binding.claim_allocations import ClaimAllocationWriter
from kilonova.scheduler.binding.results import BindingResultRecorder
from kilonova.scheduler.binding.volume_binder import VolumeBinder
from kilonova.scheduler.cache.assembly import CacheSubsystem
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.eviction.assembly import EvictionSubsystem
from kilonova.scheduler.status.assembly import StatusSubsystem


@dataclass(frozen=True, slots=True)
class BindingSubsystem:
    """Binds pods, after their claims were allocated and their volumes bound."""

    allocations: ClaimAllocationWriter
    binder: Binder

    @staticmethod
    def build(
        context: SchedulerContext,
        caches: CacheSubsystem,
        status: StatusSubsystem,
        eviction: EvictionSubsystem,
    ) -> "BindingSubsystem":
        """A gang is bound when the victims of `eviction` have terminated."""
        cache = caches.scheduler_cache
        allocations = ClaimAllocationWriter(context, cache, caches.devices)
        binder = Binder(
            context,
            cache,
            eviction.victim_waiter,
            allocations,
            VolumeBinder(context, cache, caches.storage),
            BindingResultRecorder(context, caches.backoff, caches.avoidance, status.gang_status),
        )
        return BindingSubsystem(allocations, binder)
