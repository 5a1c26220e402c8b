"""Queues as rows. Pure."""

from kilonova.api.scheduling import Queue
from kilonova.console.amounts import amounts
from kilonova.console.podstate import condition_of
from kilonova.console.rows import QueueRow, moment

_UNSEEN = "no scheduler has looked at it yet"


def queue_row(queue: Queue) -> QueueRow:
    """A queue as it is shown."""
    spec, status = queue.spec, queue.status
    told = condition_of(status.conditions, "Ready")
    ready = told is not None and told.status == "True"
    return QueueRow(
        id=queue.metadata.name,
        parent=spec.parent or "",
        weight=spec.weight,
        priority=spec.priority,
        deserved=amounts(spec.deserved),
        limit=amounts(spec.limit),
        used=amounts(status.allocated),
        requested=amounts(status.requested),
        fair_share=amounts(status.fair_share),
        waiting=status.pending_gangs,
        ready=ready,
        message=_UNSEEN if told is None else told.message,
        new=told is None,
        created=moment(queue.metadata.creation_timestamp),
    )
