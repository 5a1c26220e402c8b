"""Builds the scheduling loop."""

from kilonova.scheduler.binding.assembly import BindingSubsystem
from kilonova.scheduler.cache.assembly import CacheSubsystem
from kilonova.scheduler.cache.informers import Informers
from kilonova.scheduler.consolidation.assembly import ConsolidationSubsystem
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.cycle.leader_takeover import LeaderTakeover
from kilonova.scheduler.cycle.results import PlacementDispatcher, RejectionRecorder
from kilonova.scheduler.cycle.scheduling_loop import SchedulingLoop
from kilonova.scheduler.reservations.controller import ReservationController
from kilonova.scheduler.status.assembly import StatusSubsystem


def build_scheduling_loop(
    context: SchedulerContext,
    informers: Informers,
    caches: CacheSubsystem,
    planner: Planner,
    status: StatusSubsystem,
    binding: BindingSubsystem,
    consolidation: ConsolidationSubsystem,
    reservations: ReservationController,
) -> SchedulingLoop:
    """The loop that decides, has placements written, and passes on what was not placed."""
    dispatcher = PlacementDispatcher(binding.binder, reservations)
    rejections = RejectionRecorder(
        status.gang_status,
        binding.allocations,
        consolidation.consolidator,
        reservations,
        caches.avoidance,
    )
    takeover = LeaderTakeover(context, informers, caches, consolidation.consolidator)
    scheduling_loop = SchedulingLoop(
        context, caches, planner, dispatcher, rejections, takeover, consolidation.migrator
    )
    context.metrics.export_pending_gangs(scheduling_loop.pending_reasons)
    return scheduling_loop
