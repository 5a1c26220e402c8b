"""Passes on the results of scheduling cycles: placements, and gangs that were not placed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kilonova.scheduler.binding.binder import Binder
from kilonova.scheduler.binding.claim_allocations import ClaimAllocationWriter
from kilonova.scheduler.consolidation.consolidator import Consolidator
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady
from kilonova.scheduler.convert.reservations.reserved_gangs import is_reservation_gang
from kilonova.scheduler.core.backfill.shadow import BackfillReservation
from kilonova.scheduler.core.decisions import GangPlacement, UnschedulableGang
from kilonova.scheduler.failures.node_avoidance import NodeAvoidance
from kilonova.scheduler.reservations.controller import ReservationController
from kilonova.scheduler.status.gang_status import GangStatusWriter


@dataclass(frozen=True, slots=True)
class PlacementDispatcher:
    """Has placements written: those of pods as bindings, those of reservations as their status."""

    binder: Binder
    reservations: ReservationController

    def dispatch(self, placement: GangPlacement) -> None:
        """Start writing a placement whose pods are already assumed."""
        if is_reservation_gang(placement.gang.name):
            self.reservations.record_placement(placement)
        else:
            self.binder.bind(placement)


@dataclass(frozen=True, slots=True)
class RejectionRecorder:
    """Passes gangs that were not placed to every component that acts on them."""

    gang_status: GangStatusWriter
    allocations: ClaimAllocationWriter
    consolidator: Consolidator
    reservations: ReservationController
    avoidance: NodeAvoidance

    def record_rejections(
        self, rejections: Sequence[UnschedulableGang], reservation: BackfillReservation | None
    ) -> None:
        """Record the unschedulable gangs of a cycle, and its backfill reservation."""
        reservation_rejections = [
            each for each in rejections if is_reservation_gang(each.gang.name)
        ]
        self.reservations.record_rejections(reservation_rejections, reservation)
        rejections = [each for each in rejections if not is_reservation_gang(each.gang.name)]
        self.consolidator.record_rejections(rejections)
        rescheduled = self.avoidance.record_rejections(rejections)
        self.allocations.record_rejections(rejections)
        reported = [each for each in rejections if each.gang.name not in rescheduled]
        self.gang_status.record_rejections(reported, reservation)

    def record_not_ready(self, not_ready: Mapping[str, GangNotReady]) -> None:
        """Record gangs that cannot be scheduled as they are."""
        self.gang_status.record_not_ready(not_ready)
