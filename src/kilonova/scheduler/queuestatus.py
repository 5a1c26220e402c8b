"""Keeps the status of Queues true: what they use, wait for and can count on, and what is wrong.

Whatever happens to nodes, pods, gangs or queues may change every queue's figures. So they are
worked out for all queues at once, a few seconds after the first thing that happened, when the round
that it woke is over; what differs from what the cache shows is written.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition
from kilonova.api.scheduling import Queue, QueueStatus
from kilonova.api.times import rfc3339
from kilonova.kube import Client, KubeError, NotFound, Reflector
from kilonova.kube.logging import get_logger
from kilonova.scheduler.containment import ErrorReporter
from kilonova.scheduler.core.queues import Amounts, Forest, Problem
from kilonova.scheduler.objects import QUEUES
from kilonova.scheduler.queuefigures import Figures, queue_figures
from kilonova.scheduler.reading.amounts import quantity_of
from kilonova.scheduler.world import World

_log = get_logger(__name__)

READY = "Ready"
PLACES = Condition(READY, "True", "Placing", "gangs of the queue are placed")


class QueueStatuses:
    """A part: writes statuses while it runs."""

    name = "queue statuses"

    def __init__(
        self,
        client: Client,
        world: World,
        queues: Reflector[Queue],
        caches: Iterable[Reflector[Any]],
        now: Callable[[], datetime],
        errors: ErrorReporter,
        *,
        pace: float,
    ) -> None:
        self._client = client
        self._world = world
        self._queues = queues.store
        self._now = now
        self._errors = errors
        self._pace = pace
        self._happened = asyncio.Event()
        self._caches = list(caches)
        for cache in self._caches:
            cache.store.subscribe(self._note)

    async def run(self) -> None:
        """Writes for ever, at most every few seconds."""
        for cache in self._caches:
            await cache.wait_synced()
        self._happened.set()
        while True:
            await self._happened.wait()
            await asyncio.sleep(self._pace)
            self._happened.clear()
            await self._errors.contain("queue status", "", self._write_all())

    def _note(self, _old: object, _new: object) -> None:
        self._happened.set()

    async def _write_all(self) -> None:
        if not self._queues.objects():
            return
        world = self._world
        figures = queue_figures(world.cluster, world.waiting.values())
        for queue in sorted(self._queues.objects(), key=lambda each: each.metadata.name):
            found = figures.get(queue.metadata.name)
            if found is not None:
                await self._write(queue, queue_status(queue, found, world.cluster.forest))

    async def _write(self, queue: Queue, status: QueueStatus) -> None:
        change = status_change(queue, status, self._now())
        if change is None:
            return
        body: JsonObject = {"metadata": {"uid": queue.metadata.uid}, "status": change}
        try:
            await self._client.apply(QUEUES, queue.metadata.name, body, subresource="status")
        except NotFound:
            return  # it went; nobody needs to know any more
        except KubeError as error:
            _log.warning("queue status delayed", queue=queue.metadata.name, error=str(error))
            self._happened.set()


def queue_status(queue: Queue, figures: Figures, forest: Forest) -> QueueStatus:
    """What is to be told of a queue. Pure."""
    return QueueStatus(
        observed_generation=queue.metadata.generation,
        allocated=quantities(figures.allocated),
        requested=quantities(figures.requested),
        fair_share=quantities(figures.fair_share),
        pending_gangs=figures.pending,
        conditions=(ready(queue.metadata.name, forest),),
    )


def ready(name: str, forest: Forest) -> Condition:
    """Whether gangs of a queue are placed. What is wrong and stops nobody is told, too."""
    fault = forest.fault(name)
    if fault is not None:
        return Condition(READY, "False", fault.reason, str(fault))
    doubts = [problem for problem in forest.problems if problem.queue == name]
    return Condition(READY, "True", doubts[0].reason, _all(doubts)) if doubts else PLACES


def quantities(amounts: Amounts) -> dict[str, int | str]:
    """Amounts as Kubernetes writes them."""
    return {name: quantity_of(name, amount) for name, amount in sorted(amounts.items())}


def status_change(queue: Queue, new: QueueStatus, now: datetime) -> JsonObject | None:
    """What to apply, None if the queue says it already. A condition's time changes only with its
    status."""
    (condition,) = new.conditions
    old = next((each for each in queue.status.conditions if each.type == READY), None)
    if _facts(queue.status, old) == _facts(new, condition):
        return None
    since = old.last_transition_time if old is not None and old.status == condition.status else None
    return {
        "observedGeneration": new.observed_generation,
        "allocated": new.allocated,
        "requested": new.requested,
        "fairShare": new.fair_share,
        "pendingGangs": new.pending_gangs,
        "conditions": [
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "observedGeneration": new.observed_generation,
                "lastTransitionTime": since or rfc3339(now),
            }
        ],
    }


def _facts(status: QueueStatus, condition: Condition | None) -> tuple[object, ...]:
    said = condition and (condition.status, condition.reason, condition.message)
    return (
        status.observed_generation,
        status.allocated,
        status.requested,
        status.fair_share,
        status.pending_gangs,
        said,
    )


def _all(problems: Iterable[Problem]) -> str:
    return "; ".join(map(str, problems))
