"""The work queue of a controller: which key next.

A key waits at most once, however often it is added, and is worked on by one worker at a time:
added while it is being worked on, it comes again when that is done. One event loop, no locks;
only `get` awaits. All delays share one heap and one timer of the loop.
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

from kilonova.kube.backoff import Backoff

K = TypeVar("K", bound=Hashable)


class Priority(IntEnum):
    """What goes first. Within a level, first come, first served."""

    HIGH = 0
    """Departures: they free what others wait for."""
    NORMAL = 1
    """Arrivals and changes as they happen."""
    LOW = 2
    """What was there already: the first list after a start, a resync."""


class QueueClosed(Exception):
    """There is no more work."""


class Queue(Generic[K]):
    """Keys to work on. `get` a key, work on it, then call `done`."""

    def __init__(self, backoff: Backoff | None = None) -> None:
        self._backoff = backoff or Backoff(0.005, 300.0)
        self._levels: tuple[OrderedDict[K, float], ...] = tuple(OrderedDict() for _ in Priority)
        self._level_of: dict[K, int] = {}
        self._working: dict[K, float] = {}  # and how long it had waited
        self._again: dict[K, int] = {}
        self._failures: dict[K, int] = {}
        self._delayed: list[tuple[float, int, K, int]] = []
        self._due: dict[K, tuple[float, int, K, int]] = {}  # the entries of the heap that count
        self._sequence = count()
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """How many keys wait for a worker now."""
        return len(self._level_of)

    def add(self, key: K, priority: int = Priority.NORMAL) -> None:
        """Have a key worked on soon. A waiting key moves up if this is more urgent."""
        if self._closed:
            return
        if key in self._working:
            self._again[key] = min(priority, self._again.get(key, priority))
        else:
            self._enqueue(key, priority)

    def add_after(self, key: K, delay: float, priority: int = Priority.NORMAL) -> None:
        """Have a key worked on after some seconds; of several delays the earliest counts."""
        if delay <= 0:
            self.add(key, priority)
            return
        if self._closed:
            return
        when = asyncio.get_running_loop().time() + delay
        known = self._due.get(key)
        if known is not None and known[0] <= when:
            return
        entry = (when, next(self._sequence), key, priority)
        self._due[key] = entry
        heapq.heappush(self._delayed, entry)
        if self._delayed[0] is entry:
            self._arm()

    def retry(self, key: K, priority: int = Priority.NORMAL) -> float:
        """Have a key worked on again after a failure; the delay grows with each in a row."""
        failures = self._failures.get(key, 0) + 1
        self._failures[key] = failures
        delay = self._backoff.delay(failures)
        self.add_after(key, delay, priority)
        return delay

    def forget(self, key: K) -> None:
        """The key's work succeeded: its next failure counts as the first."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often the key's work failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key, now the caller's until `done`; `QueueClosed` when there will be none."""
        while not self._level_of:
            if self._closed:
                raise QueueClosed
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                # Woken and cancelled at once: the wake-up belongs to somebody else.
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
                self._working[key] = asyncio.get_running_loop().time() - since
                return key
        raise AssertionError("a waiting key is in one of the levels")

    def waited(self, key: K) -> float:
        """How many seconds a key that is being worked on had waited for a worker."""
        return self._working[key]

    def done(self, key: K) -> None:
        """The work on a key has ended, well or not."""
        del self._working[key]
        again = self._again.pop(key, None)
        if again is not None:
            self._enqueue(key, again)

    def close(self, *, drain: bool = True) -> None:
        """Take no more keys. Waiting ones are still handed out if `drain`, delayed ones never."""
        self._closed = True
        if not drain:
            self._again.clear()
            self._level_of.clear()
            for level in self._levels:
                level.clear()
        self._delayed.clear()
        self._due.clear()
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

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_at(self._delayed[0][0], self._release)

    def _release(self) -> None:
        """Add what is due, and wait for the next."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        while self._delayed and self._delayed[0][0] <= now:
            entry = heapq.heappop(self._delayed)
            _, _, key, priority = entry
            if self._due.get(key) is entry:
                del self._due[key]
                self.add(key, priority)
        if self._delayed:
            self._arm()
