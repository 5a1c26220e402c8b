"""The work queue of a controller.

A key is queued at most once, however often it is added, and processed by one worker at a time: a
key that is added while it is processed is queued again afterwards. One event loop, no locks; only
`get` awaits. All delays share one heap and one timer of the loop.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import OrderedDict, deque
from collections.abc import Hashable
from contextlib import suppress
from enum import IntEnum
from itertools import count
from typing import Generic, TypeVar

from kilonova.kube.wait.backoff import Backoff

K = TypeVar("K", bound=Hashable)


class Priority(IntEnum):
    """The order of keys. Within a priority, first come, first served."""

    HIGH = 0
    """Deletions: they free what other keys wait for."""
    NORMAL = 1
    """Additions and changes as they happen."""
    LOW = 2
    """Existing objects: the first list after a start, a resync."""


class WorkQueueShutDown(Exception):
    """The queue is shut down and has no more keys."""


class WorkQueue(Generic[K]):
    """Keys to process. `get` a key, process it, then call `done`."""

    def __init__(self, backoff: Backoff | None = None) -> None:
        self._backoff = backoff or Backoff(0.005, 300.0)
        self._levels: tuple[OrderedDict[K, float], ...] = tuple(OrderedDict() for _ in Priority)
        self._level_of: dict[K, int] = {}
        self._processing: dict[K, float] = {}  # and how long the key was queued
        self._requeue_priority: dict[K, int] = {}
        self._failures: dict[K, int] = {}
        self._delayed: list[tuple[float, int, K, int]] = []
        self._delayed_by_key: dict[
            K, tuple[float, int, K, int]
        ] = {}  # the valid entries of the heap
        self._sequence = count()
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._shut_down = False

    def __len__(self) -> int:
        """The number of keys that are ready and not being processed."""
        return len(self._level_of)

    @property
    def is_idle(self) -> bool:
        """Whether no key is ready or being processed; keys may be delayed."""
        return not self._level_of and not self._processing

    def add(self, key: K, priority: int = Priority.NORMAL) -> None:
        """Enqueue a key. A queued key moves up if this priority is higher."""
        if self._shut_down:
            return
        if key in self._processing:
            self._requeue_priority[key] = min(priority, self._requeue_priority.get(key, priority))
        else:
            self._enqueue(key, priority)

    def add_after(self, key: K, delay: float, priority: int = Priority.NORMAL) -> None:
        """Enqueue a key after some seconds; of several delays the earliest applies."""
        if delay <= 0:
            self.add(key, priority)
            return
        if self._shut_down:
            return
        when = asyncio.get_running_loop().time() + delay
        known = self._delayed_by_key.get(key)
        if known is not None and known[0] <= when:
            return
        entry = (when, next(self._sequence), key, priority)
        self._delayed_by_key[key] = entry
        heapq.heappush(self._delayed, entry)
        if self._delayed[0] is entry:
            self._arm_timer()

    def add_rate_limited(self, key: K, priority: int = Priority.NORMAL) -> float:
        """Enqueue a key after a failure; the delay grows with consecutive failures."""
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        delay = self._backoff.delay(failures)
        self.add_after(key, delay, priority)
        return delay

    def forget(self, key: K) -> None:
        """Reset the failures of a key: its next failure counts as the first."""
        self._failures.pop(key, None)

    def num_requeues(self, key: K) -> int:
        """How often the key failed consecutively."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key, owned by the caller until `done`; raises `WorkQueueShutDown` at the end."""
        while not self._level_of:
            if self._shut_down:
                raise WorkQueueShutDown
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # Woken and cancelled at the same time: pass the wake-up on to another waiter.
                if waiter.done() and not waiter.cancelled():
                    self._wake_one()
                else:
                    with suppress(ValueError):
                        self._waiters.remove(waiter)
                raise
        for level in self._levels:
            if level:
                key, since = level.popitem(last=False)
                del self._level_of[key]
                self._processing[key] = asyncio.get_running_loop().time() - since
                return key
        raise AssertionError("a queued key is in one of the priorities")

    def queue_duration(self, key: K) -> float:
        """How many seconds a key that is being processed had been queued."""
        return self._processing[key]

    def done(self, key: K) -> None:
        """Processing of a key has ended, successfully or not."""
        del self._processing[key]
        requeue_priority = self._requeue_priority.pop(key, None)
        if requeue_priority is not None:
            self._enqueue(key, requeue_priority)

    def shut_down(self, *, drain: bool = True) -> None:
        """Accept no more keys. Ready keys are still returned if `drain`, delayed ones never."""
        self._shut_down = True
        if not drain:
            self._requeue_priority.clear()
            self._level_of.clear()
            for level in self._levels:
                level.clear()
        self._delayed.clear()
        self._delayed_by_key.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._wake_all()

    def _enqueue(self, key: K, priority: int) -> None:
        level = self._level_of.get(key)
        if level is None:
            self._level_of[key] = priority
            self._levels[priority][key] = asyncio.get_running_loop().time()
            if self._waiters:
                self._wake_one()
        elif priority < level:
            self._level_of[key] = priority
            self._levels[priority][key] = self._levels[level].pop(key)

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._waiters:
            self._wake_one()

    def _arm_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(self._delayed[0][0], self._add_due_keys)

    def _add_due_keys(self) -> None:
        """Add the keys that are due, and start the timer for the next."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._delayed and self._delayed[0][0] <= now:
            entry = heapq.heappop(self._delayed)
            _, _, key, priority = entry
            if self._delayed_by_key.get(key) is entry:
                del self._delayed_by_key[key]
                self.add(key, priority)
        if self._delayed:
            self._arm_timer()
