"""Watches that wait for events, indexed by the events they match (cacheWatchers).

A watch of one object, one namespace or one node is not woken for others. If very many watches wait
for the same events, waking is delayed: each then takes several events at once, which costs little
more than taking one. The delay grows with the number of watches, up to `MAX_WAKE_DELAY` after the
first event.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator

from kilonova.local.apiserver.storage.entries import Entry, StorageEvent

IMMEDIATE_WAKES = 64
"""Up to this many watches are woken without delay."""

MAX_WAKE_DELAY = 0.01
_DELAY_PER_WAITER = 0.00004

WatchInterest = tuple[str | int, str] | None
"""("key", key), ("namespace", name), or (position of a selectable field, value); None: all events.
"""


_Futures = dict[asyncio.Future[None], None]
_NO_WAITERS: _Futures = {}


class Waiters:
    """The watches of one collection that have seen everything. For one event loop."""

    def __init__(self) -> None:
        # Dictionaries instead of sets: watches are woken in the order of waiting, for determinism.
        self._waiting: dict[WatchInterest, _Futures] = {}
        self._field_counts: Counter[int] = Counter()
        self._woken: _Futures = {}
        self._wake_timer: asyncio.TimerHandle | None = None

    async def wait(self, interest: WatchInterest, until: float) -> None:
        """Wait for an event that matches `interest`, or until this time of the event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        # A timer instead of asyncio.timeout, which is noticeably slower with a thousand watches.
        timer = loop.call_at(until, _wake_one, future)
        self._waiting.setdefault(interest, {})[future] = None
        position = interest[0] if interest else None
        if isinstance(position, int):
            self._field_counts[position] += 1
        try:
            await future
        finally:
            timer.cancel()
            self._remove(interest, future)
            if isinstance(position, int):
                self._field_counts[position] -= 1

    def _remove(self, interest: WatchInterest, future: asyncio.Future[None]) -> None:
        self._woken.pop(future, None)
        others = self._waiting.get(interest)
        if others is not None:
            others.pop(future, None)
            if not others:
                del self._waiting[interest]

    def wake(self, events: Iterable[StorageEvent]) -> None:
        """Wake the watches that these events may match, now or after a delay."""
        if not self._waiting:
            return
        due = self._woken
        due.update(self._waiting.get(None, _NO_WAITERS))
        if len(self._waiting) > 1 or None not in self._waiting:
            for event in events:
                for interest in self._interests_of(event):
                    due.update(self._waiting.get(interest, _NO_WAITERS))
        if len(self._woken) <= IMMEDIATE_WAKES:
            self.flush()
        elif self._wake_timer is None:
            delay = min(MAX_WAKE_DELAY, len(self._woken) * _DELAY_PER_WAITER)
            self._wake_timer = asyncio.get_running_loop().call_later(delay, self.flush)

    def wake_all(self) -> None:
        """Wake all watches: something other than an event has happened."""
        for futures in self._waiting.values():
            self._woken.update(futures)
        self.flush()

    def flush(self) -> None:
        """Wake the watches that are due."""
        if self._wake_timer is not None:
            self._wake_timer.cancel()
            self._wake_timer = None
        due, self._woken = self._woken, {}
        for future in due:
            _wake_one(future)

    def _interests_of(self, event: StorageEvent) -> Iterator[WatchInterest]:
        key = event.entry.key
        yield ("key", key)
        yield ("namespace", key.partition("/")[0])
        if +self._field_counts:
            yield from self._field_interests(event.entry)
            if event.previous is not None:
                yield from self._field_interests(event.previous)

    def _field_interests(self, entry: Entry) -> Iterator[WatchInterest]:
        for position, watches in self._field_counts.items():
            if not watches:
                continue
            if entry.fields is None:
                # Field values of an entry from the log are not computed: watches must check it
                # themselves.
                yield from [each for each in self._waiting if each and each[0] == position]
            else:
                yield (position, entry.fields[position])


def _wake_one(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
