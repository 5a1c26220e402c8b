"""Keeps the status of Queues up to date: usage, requests, fair share, and problems.

Any event of nodes, pods, gangs or queues may change the figures of every queue. So they are
computed for all queues at once, one status interval after the first event, when the scheduling
cycle that it triggered is over; only differences from the informer's state are written. A new queue
gets its first status sooner, as it is shown as not observed until then.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition
from kilonova.api.scheduling import Queue, QueueStatus
from kilonova.kube import KubeError
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.status import apply_status, encode_condition, with_condition
from kilonova.scheduler.cache.informers import Informers
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.convert.quantities import encode_quantity
from kilonova.scheduler.core.queueing.queues import QueueForest, QueueProblem, ResourceAmounts
from kilonova.scheduler.objects.core_v1 import QUEUES
from kilonova.scheduler.status.queue_figures import QueueFigures, compute_queue_figures

_log = get_logger(__name__)

_FIRST_STATUS_DELAY = 0.5
"""Seconds from the creation of a queue to its first status, unless the interval is shorter."""

READY = "Ready"
READY_CONDITION = Condition(READY, "True", "QueueReady", "gangs of this queue are scheduled")


class QueueStatusWriter:
    """A runnable that writes queue statuses."""

    name = "queue-status"

    def __init__(
        self,
        context: SchedulerContext,
        scheduler_cache: SchedulerCache,
        informers: Informers,
    ) -> None:
        self._client = context.client
        self._cache = scheduler_cache
        self._queues = informers.queues.store
        self._now = context.now
        self._errors = context.errors
        self._status_interval = context.settings.status_interval
        self._changed = asyncio.Event()
        self._created = asyncio.Event()
        self._informers = informers.all
        for cache in self._informers:
            cache.store.add_event_handler(self._note_change)
        self._queues.add_event_handler(self._note_new_queue)

    async def run(self) -> None:
        """Write statuses forever: once per status interval, and soon after a queue is created."""
        for cache in self._informers:
            await cache.wait_for_sync()
        self._changed.set()
        while True:
            await self._changed.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._status_interval):
                    await self._created.wait()
                    await asyncio.sleep(_FIRST_STATUS_DELAY)
            self._changed.clear()
            self._created.clear()
            await self._errors.contain("queue status", "", self._write_all())

    def _note_change(self, _old: object, _new: object) -> None:
        self._changed.set()

    def _note_new_queue(self, _old: object, new: Queue | None) -> None:
        if new is not None and not new.status.conditions:
            self._created.set()

    async def _write_all(self) -> None:
        if not self._queues.objects():
            return
        cache = self._cache
        if cache.has_unread_queues:  # a scheduling cycle reads them soon
            self._changed.set()
            self._created.set()
            return
        figures = compute_queue_figures(cache.cluster, cache.waiting.values())
        for queue in sorted(self._queues.objects(), key=lambda each: each.metadata.name):
            name, generation = queue.metadata.name, queue.metadata.generation
            status = queue_status(name, figures[name], cache.cluster.forest, generation)
            await self._write(queue, status)

    async def _write(self, queue: Queue, status: QueueStatus) -> None:
        change = status_change(queue, status, self._now())
        if change is None:
            return
        try:
            await apply_status(self._client, QUEUES, queue.metadata, change)
        except KubeError as error:
            _log.warning(
                "queue status not written, retrying", queue=queue.metadata.name, error=str(error)
            )
            self._changed.set()


def queue_status(
    name: str, figures: QueueFigures, forest: QueueForest, generation: int | None = None
) -> QueueStatus:
    """The status of a queue. Pure."""
    return QueueStatus(
        observed_generation=generation,
        allocated=to_quantities(figures.allocated),
        requested=to_quantities(figures.requested),
        fair_share=to_quantities(figures.fair_share),
        pending_gangs=figures.pending,
        conditions=(ready_condition(name, forest),),
    )


def ready_condition(name: str, forest: QueueForest) -> Condition:
    """Whether gangs of a queue are scheduled. Problems that do not block it are reported, too."""
    blocking = forest.blocking_problem(name)
    if blocking is not None:
        return Condition(READY, "False", blocking.reason, str(blocking))
    warnings = [problem for problem in forest.problems if problem.queue == name]
    return (
        Condition(READY, "True", warnings[0].reason, _join_problems(warnings))
        if warnings
        else READY_CONDITION
    )


def to_quantities(amounts: ResourceAmounts) -> dict[str, int | str]:
    """Amounts as Kubernetes quantities."""
    return {name: encode_quantity(name, amount) for name, amount in sorted(amounts.items())}


def status_change(queue: Queue, new: QueueStatus, now: datetime) -> JsonObject | None:
    """The status to apply; None if the queue has it already. The transition time of a condition
    changes only with its status."""
    (condition,) = new.conditions
    condition = replace(condition, observed_generation=new.observed_generation)
    conditions = with_condition(queue.status.conditions, condition, now)
    if replace(new, conditions=conditions) == queue.status:
        return None
    amounts = {
        "allocated": new.allocated,
        "requested": new.requested,
        "fairShare": new.fair_share,
    }
    return {
        "observedGeneration": new.observed_generation,
        # Kubernetes turns an empty map whose keys were applied before into null, which is invalid.
        **{name: amount for name, amount in amounts.items() if amount},
        "pendingGangs": new.pending_gangs,
        "conditions": [encode_condition(each) for each in conditions if each.type == READY],
    }


def _join_problems(problems: Iterable[QueueProblem]) -> str:
    return "; ".join(map(str, problems))
