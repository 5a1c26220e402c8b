"""A controller: changes in, keys in a queue, `reconcile` called for each until it succeeds.

Handlers of the watched stores run inside the reflectors' tasks and only add keys; `workers`
tasks take keys and call `reconcile`. For one key there is never more than one call at a time.
A call that raises is logged and repeated with a growing delay; a call that returns is not
repeated until something changes, or until the time it asked for.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeAlias, TypeVar

from kilonova.kube.backoff import Backoff
from kilonova.kube.breath import Breath
from kilonova.kube.errors import Conflict, KubeError
from kilonova.kube.identity import Key
from kilonova.kube.instruments import UNMEASURED, Instruments, Outcome
from kilonova.kube.logging import get_logger
from kilonova.kube.queue import Priority, Queue, QueueClosed
from kilonova.kube.reflector import Reflector

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Result:
    """What a reconcile may return: call me again after this many seconds."""

    after: float


Reconcile: TypeAlias = Callable[[Key], Awaitable[Result | None]]


@dataclass(frozen=True, slots=True)
class Watch(Generic[T]):
    """A resource whose changes concern a controller, and the keys that a change concerns.

    `keys` is asked about the object before and after the change: an object that moves from
    one owner to another concerns both. None means the object's own key.
    """

    reflector: Reflector[T]
    keys: Callable[[T], Iterable[Key]] | None = None


@dataclass(frozen=True, slots=True)
class Comparison(Generic[T]):
    """A resource of which only some changes concern a controller.

    `keys` compares the object before and after the change; None is one that is not there.
    """

    reflector: Reflector[T]
    keys: Callable[[T | None, T | None], Iterable[Key]]


class Controller:
    """Calls `reconcile` for every key that a change concerns.

    `resync` is a net for what events may have missed: every so many seconds, all keys are
    reconciled at low priority. None casts no net.
    """

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        watches: Sequence[Watch[Any] | Comparison[Any]],
        *,
        workers: int = 1,
        resync: float | None = None,
        backoff: Backoff | None = None,
        instruments: Instruments = UNMEASURED,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if workers < 1:
            raise ValueError(f"controller {name} needs at least one worker")
        self.name = f"controller {name}"
        self.queue: Queue[Key] = Queue(backoff)
        self._reconcile = reconcile
        self._watches = watches
        self._workers = workers
        self._resync = resync
        self._instruments = instruments
        self._sleep = sleep
        self._jitter = jitter
        self._label = name
        self._stopped = asyncio.Event()
        self._log = get_logger(__name__, controller=name)
        instruments.queue_opened(name, self.queue.__len__)

    async def run(self) -> None:
        """Work until `stop` or cancellation. Begins when all watched stores are filled."""
        unsubscribe = [self._subscribe(watch) for watch in self._watches]
        try:
            if await self._synced_before_stop():
                async with asyncio.TaskGroup() as group:
                    net = group.create_task(self._cast_net())
                    workers = [group.create_task(self._work()) for _ in range(self._workers)]
                    await asyncio.wait(workers)
                    net.cancel()
        finally:
            for stop in unsubscribe:
                stop()

    def stop(self) -> None:
        """Let `run` return as soon as the calls under way have ended.

        Keys that still wait are dropped: whoever runs the controller next finds them again.
        """
        self._stopped.set()
        self.queue.close(drain=False)

    async def _synced_before_stop(self) -> bool:
        stopped = asyncio.ensure_future(self._stopped.wait())
        synced = [asyncio.ensure_future(watch.reflector.wait_synced()) for watch in self._watches]
        try:
            for waiting in synced:
                await asyncio.wait((waiting, stopped), return_when=asyncio.FIRST_COMPLETED)
            return not self._stopped.is_set()
        finally:
            for waiting in (stopped, *synced):
                waiting.cancel()

    def _subscribe(self, watch: Watch[Any] | Comparison[Any]) -> Callable[[], None]:
        """Turn changes into keys; what the store already holds counts as a change."""
        self._add_all(watch)
        store = watch.reflector.store
        return store.subscribe(
            self._on_difference(watch) if isinstance(watch, Comparison) else self._on_change(watch)
        )

    def _on_difference(self, watch: Comparison[Any]) -> Callable[[Any, Any], None]:
        store, keys, add = watch.reflector.store, watch.keys, self.queue.add

        def compared(old: Any, new: Any) -> None:
            priority = Priority.NORMAL if store.synced else Priority.LOW
            for key in keys(old, new):
                add(key, priority)

        return compared

    def _on_change(self, watch: Watch[Any]) -> Callable[[Any, Any], None]:
        store, keys = watch.reflector.store, watch.keys
        add, key_of = self.queue.add, store.key_of
        low, normal, high = Priority.LOW, Priority.NORMAL, Priority.HIGH

        def object_changed(old: Any, new: Any) -> None:
            if new is None:
                add(key_of(old), high)
            else:
                add(key_of(new), normal if store.synced else low)

        def relative_changed(old: Any, new: Any) -> None:
            assert keys is not None
            priority = high if new is None else normal if store.synced else low
            for obj in (old, new):
                if obj is not None:
                    for key in keys(obj):
                        add(key, priority)

        return object_changed if keys is None else relative_changed

    def _add_all(self, watch: Watch[Any] | Comparison[Any]) -> None:
        store = watch.reflector.store
        keys = store.keys()
        if isinstance(watch, Comparison):
            keys = chain.from_iterable(watch.keys(None, each) for each in store.objects())
        elif watch.keys is not None:
            keys = chain.from_iterable(map(watch.keys, store.objects()))
        for key in keys:
            self.queue.add(key, Priority.LOW)

    async def _cast_net(self) -> None:
        while self._resync is not None:
            await self._sleep(self._resync * (1 + self._jitter() / 10))
            for watch in self._watches:
                self._add_all(watch)

    async def _work(self) -> None:
        queue, reconcile = self.queue, self._reconcile
        now = asyncio.get_running_loop().time
        breath = Breath()
        while True:
            try:
                key = await queue.get()
            except QueueClosed:
                return
            started = now()
            outcome: Outcome = "success"
            try:
                result = await reconcile(key)
                queue.forget(key)
                if result is not None:
                    outcome = "requeued"
                    queue.add_after(key, result.after)
            except Exception as error:
                outcome = "error"
                self._report(key, error, queue.retry(key))
            finally:
                waited = queue.waited(key)
                queue.done(key)
            self._instruments.reconciled(self._label, outcome, now() - started, waited)
            await breath.take_if_due()

    def _report(self, key: Key, error: Exception, delay: float) -> None:
        fields = {
            "object": "/".join(filter(None, key)),
            "error": str(error) or type(error).__name__,
            "failures": self.queue.failures(key),
            "delay": round(delay, 3),
        }
        if isinstance(error, Conflict):
            self._log.info("object changed meanwhile, will reconcile again", **fields)
        elif isinstance(error, KubeError):
            self._log.warning("reconcile failed, will retry", **fields)
        else:
            self._log.exception("reconcile failed, will retry", **fields)
