"""Builds the components that evict pods."""

from dataclasses import dataclass

from kilonova.scheduler.cache.assembly import CacheSubsystem
from kilonova.scheduler.cache.informers import Informers
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.eviction.evictor import Evictor
from kilonova.scheduler.eviction.nominations import NominationWriter
from kilonova.scheduler.eviction.partial_gangs import PartialGangEvictor
from kilonova.scheduler.eviction.victim_waiter import VictimWaiter
from kilonova.scheduler.status.assembly import StatusSubsystem


@dataclass(frozen=True, slots=True)
class EvictionSubsystem:
    """Evicts victims and partial gangs, and nominates nodes while victims terminate."""

    nominations: NominationWriter
    evictor: Evictor
    victim_waiter: VictimWaiter
    partial_gangs: PartialGangEvictor

    @staticmethod
    def build(
        context: SchedulerContext,
        informers: Informers,
        caches: CacheSubsystem,
        status: StatusSubsystem,
        planner: Planner,
    ) -> "EvictionSubsystem":
        """A gang whose victims are overdue does not preempt: its adjuster is added to the cache."""
        cache, gangs = caches.scheduler_cache, caches.pod_groups.gangs
        nominations = NominationWriter(context, cache)
        evictor = Evictor(context, cache, nominations)
        victim_waiter = VictimWaiter(
            context, cache, evictor, nominations, planner, status.gang_status
        )
        victim_waiter.attach(informers.pods.store, informers.nodes.store, gangs)
        cache.gang_adjusters.add(victim_waiter.suspend_preemption)
        cache.reservations.gang_adjusters.add(victim_waiter.suspend_preemption)
        partial_gangs = PartialGangEvictor(context, cache, gangs, evictor)
        return EvictionSubsystem(nominations, evictor, victim_waiter, partial_gangs)
