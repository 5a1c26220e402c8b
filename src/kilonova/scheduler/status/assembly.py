"""Builds the components that write statuses and events."""

from dataclasses import dataclass

from kilonova.kube import Runnable
from kilonova.scheduler.cache.assembly import CacheSubsystem
from kilonova.scheduler.cache.informers import Informers
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.core.filters.feasibility import ScoreFunction
from kilonova.scheduler.status.default_queue import DefaultQueueController
from kilonova.scheduler.status.explanations import ExplanationCache
from kilonova.scheduler.status.gang_status import GangStatusWriter
from kilonova.scheduler.status.pod_group_status import PodGroupStatusWriter
from kilonova.scheduler.status.queue_status import QueueStatusWriter


@dataclass(frozen=True, slots=True)
class StatusSubsystem:
    """The writers of statuses, and the explanations that they contain."""

    explanations: ExplanationCache
    gang_status: GangStatusWriter
    default_queue: DefaultQueueController
    queue_status: QueueStatusWriter
    pod_group_status: PodGroupStatusWriter

    @staticmethod
    def build(
        context: SchedulerContext,
        informers: Informers,
        caches: CacheSubsystem,
        score: ScoreFunction,
    ) -> "StatusSubsystem":
        """`score` ranks nodes in explanations, as it does in decisions."""
        explanations = ExplanationCache(context, caches.scheduler_cache, score)
        return StatusSubsystem(
            explanations,
            GangStatusWriter(
                context, caches.scheduler_cache, caches.pod_groups.gangs, explanations
            ),
            DefaultQueueController(context, informers),
            QueueStatusWriter(context, caches.scheduler_cache, informers),
            PodGroupStatusWriter(context, informers, caches.pod_groups),
        )

    @property
    def runnables(self) -> tuple[Runnable, ...]:
        return (
            self.gang_status.controller,
            self.default_queue.controller,
            self.queue_status,
            self.pod_group_status.controller,
        )
