"""Passes on the results of bindings."""

from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.core.decisions import GangPlacement
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.failures.backoff import GangBackoff
from kilonova.scheduler.failures.binding_rejections import BindingRejection
from kilonova.scheduler.failures.node_avoidance import NodeAvoidance
from kilonova.scheduler.status.gang_status import GangStatusWriter


@dataclass(frozen=True, slots=True)
class BindingResultRecorder:
    """Records the results of bindings: for the next attempt, in the metrics, and in the status."""

    context: SchedulerContext
    backoff: GangBackoff
    avoidance: NodeAvoidance
    gang_status: GangStatusWriter

    def record(
        self,
        placement: GangPlacement,
        failed: list[PodPlacement],
        rejections: Sequence[BindingRejection],
    ) -> None:
        """Record a placement whose bindings were written, except for `failed`; `rejections` are
        those of them that the API server refused."""
        gang = placement.gang
        self.avoidance.record_binding_rejections(gang.name, rejections)
        if failed:
            self.backoff.record_failure(gang.name)
        else:
            self.backoff.forget(gang.name)
            if not any(group.placed_nodes for group in gang.groups):
                waited = self.context.now().timestamp() - gang.created
                self.context.metrics.observe_time_to_place(waited)
        self.gang_status.record_placement(placement, failed)
        self.gang_status.record_binding_rejections(gang, rejections)
