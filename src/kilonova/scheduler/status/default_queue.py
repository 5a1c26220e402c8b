"""Keeps the Queue object of the default queue in existence, so that its status can be reported.

The scheduler itself does not need the object: gangs that name no queue are in the default queue
with or without it. It is created without a spec, and never changed: a share or a limit that a user
gives it stays theirs.
"""

from collections.abc import Iterable

from kilonova.api.scheduling import DEFAULT_QUEUE, Queue
from kilonova.kube import (
    AlreadyExists,
    ApiStatusError,
    ChangeWatch,
    Controller,
    Key,
    Result,
)
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.scheduler.cache.informers import Informers
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.objects.core_v1 import QUEUES

_log = get_logger(__name__)

_KEY: Key = ("", DEFAULT_QUEUE)
_REFUSAL_RETRY_SECONDS = 60.0


class DefaultQueueController:
    """Creates the default queue at start if it is missing, and again when it is deleted."""

    def __init__(self, context: SchedulerContext, informers: Informers) -> None:
        self._client = context.client
        self._queues = informers.queues.store
        self._refused = False
        watches = [ChangeWatch(informers.queues, _deleted_default_queue)]
        self.controller = Controller("default-queue", self._reconcile, watches)
        self.controller.queue.add(_KEY)  # an object that never existed has no event

    async def _reconcile(self, key: Key) -> Result | None:
        if key in self._queues:
            return None
        try:
            await self._client.create(QUEUES, {"metadata": {"name": DEFAULT_QUEUE}})
        except AlreadyExists:
            pass
        except ApiStatusError as error:
            if not self._refused:
                _log.warning(
                    "default queue not created, scheduling continues without its status",
                    queue=DEFAULT_QUEUE,
                    error=str(error),
                )
            self._refused = True
            return Result(_REFUSAL_RETRY_SECONDS)
        self._refused = False
        return None


def _deleted_default_queue(old: Queue | None, new: Queue | None) -> Iterable[Key]:
    deleted = new is None and old is not None and old.metadata.name == DEFAULT_QUEUE
    return (_KEY,) if deleted else ()
