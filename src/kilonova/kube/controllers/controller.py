"""A controller: maps changes to keys in a work queue, and reconciles each key until it succeeds.

Event handlers of the watched stores run inside the reflectors' tasks and only add keys; `workers`
tasks take keys and call `reconcile`. For one key there is never more than one call at a time. A
call that raises is logged and repeated with a growing delay; a call that returns is not repeated
until something changes, or until the time it requested.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeAlias, TypeVar

from kilonova.kube.client.errors import Conflict, KubeError
from kilonova.kube.controllers.work_queue import Priority, WorkQueue, WorkQueueShutDown
from kilonova.kube.informers.object_keys import Key
from kilonova.kube.informers.reflector import Reflector
from kilonova.kube.observability.runtime_metrics import (
    NO_RUNTIME_METRICS,
    ReconcileOutcome,
    RuntimeMetrics,
)
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.wait.backoff import Backoff
from kilonova.kube.wait.cooperative_yield import CooperativeYield

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result:
    """What reconcile may return: requeue the key after this many seconds."""

    requeue_after: float


Reconcile: TypeAlias = Callable[[Key], Awaitable[Result | None]]


@dataclass(frozen=True, slots=True)
class Watch(Generic[T]):
    """A resource whose changes a controller handles, and the mapper from an object to keys.

    `mapper` is called with the object before and after the change: an object that moves from one
    owner to another enqueues both. None enqueues the object's own key.
    """

    reflector: Reflector[T]
    mapper: Callable[[T], Iterable[Key]] | None = None


@dataclass(frozen=True, slots=True)
class ChangeWatch(Generic[T]):
    """A resource of which only some changes are handled by a controller.

    `mapper` compares the object before and after the change; None is an absent object.
    """

    reflector: Reflector[T]
    mapper: Callable[[T | None, T | None], Iterable[Key]]


class Controller:
    """Calls `reconcile` for every key that a change maps to.

    `resync_period` covers events that may have been missed: at this interval, in seconds, all keys
    are reconciled at low priority. None disables it.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        watches: Sequence[Watch[Any] | ChangeWatch[Any]],
        *,
        workers: int = 1,
        resync_period: float | None = None,
        backoff: Backoff | None = None,
        runtime_metrics: RuntimeMetrics = NO_RUNTIME_METRICS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if workers < 1:
            raise ValueError(f"controller {name} needs at least one worker")
        self.name = f"controller {name}"
        self.queue: WorkQueue[Key] = WorkQueue(backoff)
        self._reconcile = reconcile
        self._watches = watches
        self._workers = workers
        self._resync_period = resync_period
        self._runtime_metrics = runtime_metrics
        self._sleep = sleep
        self._jitter = jitter
        self._controller_name = name
        self._stopped = asyncio.Event()
        self._log = get_logger(__name__, controller=name)
        runtime_metrics.register_queue(name, self.queue.__len__)

    async def run(self) -> None:
        """Work until `stop` or cancellation. Starts when all watched stores have synced."""
        unsubscribe = [self._add_event_handler(watch) for watch in self._watches]
        try:
            if await self._wait_for_cache_sync():
                async with asyncio.TaskGroup() as group:
                    net = group.create_task(self._resync_periodically())
                    workers = [group.create_task(self._run_worker()) for _ in range(self._workers)]
                    await asyncio.wait(workers)
                    net.cancel()
        finally:
            for stop in unsubscribe:
                stop()

    def stop(self) -> None:
        """Let `run` return as soon as the calls in progress have ended.

        Keys still queued are dropped: the controller finds them again when it next starts.
        """
        self._stopped.set()
        self.queue.shut_down(drain=False)

    async def _wait_for_cache_sync(self) -> bool:
        stopped = asyncio.ensure_future(self._stopped.wait())
        synced = [asyncio.ensure_future(watch.reflector.wait_for_sync()) for watch in self._watches]
        try:
            for waiting in synced:
                await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
            return not self._stopped.is_set()
        finally:
            for waiting in (stopped, *synced):
                waiting.cancel()

    def _add_event_handler(self, watch: Watch[Any] | ChangeWatch[Any]) -> Callable[[], None]:
        """Map changes to keys; objects already in the store count as changes."""
        self._enqueue_all(watch)
        store = watch.reflector.store
        return store.add_event_handler(
            self._change_handler(watch)
            if isinstance(watch, ChangeWatch)
            else self._object_handler(watch)
        )

    def _change_handler(self, watch: ChangeWatch[Any]) -> Callable[[Any, Any], None]:
        store, keys, add = watch.reflector.store, watch.mapper, self.queue.add

        def enqueue_mapped_change(old: Any, new: Any) -> None:
            priority = Priority.NORMAL if store.has_synced else Priority.LOW
            for key in keys(old, new):
                add(key, priority)

        return enqueue_mapped_change

    def _object_handler(self, watch: Watch[Any]) -> Callable[[Any, Any], None]:
        store, keys = watch.reflector.store, watch.mapper
        add, key_of = self.queue.add, store.key_of
        low, normal, high = Priority.LOW, Priority.NORMAL, Priority.HIGH

        def enqueue_object(old: Any, new: Any) -> None:
            if new is None:
                add(key_of(old), high)
            else:
                add(key_of(new), normal if store.has_synced else low)

        def enqueue_mapped_objects(old: Any, new: Any) -> None:
            assert keys is not None
            priority = high if new is None else normal if store.has_synced else low
            for obj in (old, new):
                if obj is not None:
                    for key in keys(obj):
                        add(key, priority)

        return enqueue_object if keys is None else enqueue_mapped_objects

    def _enqueue_all(self, watch: Watch[Any] | ChangeWatch[Any]) -> None:
        store = watch.reflector.store
        keys = store.keys()
        if isinstance(watch, ChangeWatch):
            keys = chain.from_iterable(watch.mapper(None, each) for each in store.objects())
        elif watch.mapper is not None:
            keys = chain.from_iterable(map(watch.mapper, store.objects()))
        for key in keys:
            self.queue.add(key, Priority.LOW)

    async def _resync_periodically(self) -> None:
        while self._resync_period is not None:
            await self._sleep(self._resync_period * (1 + self._jitter() / 10))
            for watch in self._watches:
                self._enqueue_all(watch)

    async def _run_worker(self) -> None:
        queue, reconcile = self.queue, self._reconcile
        now = asyncio.get_running_loop().time
        cooperative_yield = CooperativeYield()
        while True:
            try:
                key = await queue.get()
            except WorkQueueShutDown:
                return
            started = now()
            outcome: ReconcileOutcome = "success"
            try:
                result = await reconcile(key)
                queue.forget(key)
                if result is not None:
                    outcome = "requeued"
                    queue.add_after(key, result.requeue_after)
            except Exception as error:
                outcome = "error"
                self._log_failure(key, error, queue.add_rate_limited(key))
            finally:
                waited = queue.queue_duration(key)
                queue.done(key)
            self._runtime_metrics.observe_reconcile(
                self._controller_name, outcome, now() - started, waited
            )
            await cooperative_yield.yield_if_due()

    def _log_failure(self, key: Key, error: Exception, delay: float) -> None:
        fields = {
            "object": "/".join(filter(None, key)),
            "error": str(error) or type(error).__name__,
            "failures": self.queue.num_requeues(key),
            "delay": round(delay, 3),
        }
        if isinstance(error, Conflict):
            self._log.info("conflict, will reconcile again", **fields)
        elif isinstance(error, KubeError):
            self._log.warning("reconcile failed, will retry", **fields)
        else:
            self._log.exception("reconcile failed, will retry", **fields)
