"""Queue objects as the forest of queues."""

from collections.abc import Iterable

from kilonova.api.durations import parse_duration
from kilonova.api.scheduling import Queue
from kilonova.scheduler.convert.quantities import convert_queue_quantities
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.queues import QueueForest, QueueSpec


def convert_queues(queues: Iterable[Queue]) -> QueueForest:
    """Convert all queues; problems are part of the forest."""
    return build_queue_forest(map(convert_queue, queues))


def convert_queue(queue: Queue) -> QueueSpec:
    """Convert one queue."""
    spec = queue.spec
    return QueueSpec(
        name=queue.metadata.name,
        parent=spec.parent or "",
        deserved=convert_queue_quantities(spec.deserved),
        limit=convert_queue_quantities(spec.limit),
        weight=spec.weight,
        priority=spec.priority,
        preempt_min_runtime=_parse_seconds(spec.preempt_min_runtime),
        reclaim_min_runtime=_parse_seconds(spec.reclaim_min_runtime),
    )


def _parse_seconds(text: str | None) -> float | None:
    return None if text is None else parse_duration(text)
