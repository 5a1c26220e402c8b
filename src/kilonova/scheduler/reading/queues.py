"""Queues, from what people wrote to the forest that gangs stand in."""

from collections.abc import Iterable

from kilonova.api.durations import parse_duration
from kilonova.api.scheduling import Queue
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.queues import Forest, QueueSpec
from kilonova.scheduler.reading.amounts import queue_amounts


def forest_from(queues: Iterable[Queue]) -> Forest:
    """All queues; what is wrong with some is among its problems."""
    return forest_of(map(spec_of, queues))


def spec_of(queue: Queue) -> QueueSpec:
    """A queue as it was written."""
    spec = queue.spec
    return QueueSpec(
        name=queue.metadata.name,
        parent=spec.parent or "",
        deserved=queue_amounts(spec.deserved),
        limit=queue_amounts(spec.limit),
        weight=spec.weight,
        priority=spec.priority,
        preempt_min_runtime=_seconds(spec.preempt_min_runtime),
        reclaim_min_runtime=_seconds(spec.reclaim_min_runtime),
    )


def _seconds(text: str | None) -> float | None:
    return None if text is None else parse_duration(text)
