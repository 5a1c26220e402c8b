"""Watches that wait for something to happen, by what would concern them.

A watch of one object, one namespace or one node is not woken for others. Where very many
watches wait for the same thing, they are woken in rounds: each then takes several events at
once, which costs little more than taking one. A round comes the later the more it wakes, and
never later than `LONGEST_ROUND` after its first event.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator

from kilonova.local.storage.entries import Entry, Event

AT_ONCE = 64
"""So many watches are woken without waiting for more."""

LONGEST_ROUND = 0.01
_SECONDS_EACH = 0.00004

Interest = tuple[str | int, str] | None
"""("key", its key), ("namespace", its name), or (position of a field, its value); None: all."""


_Futures = dict[asyncio.Future[None], None]
_NOBODY: _Futures = {}


class Sleepers:
    """The watches of one collection that have seen everything. For one event loop."""

    def __init__(self) -> None:
        # Dictionaries for sets: who slept first is woken first, the same in every run.
        self._sleeping: dict[Interest, _Futures] = {}
        self._positions: Counter[int] = Counter()
        self._due: _Futures = {}
        self._round: asyncio.TimerHandle | None = None

    async def sleep(self, interest: Interest, until: float) -> None:
        """Wait for an event that may be of interest, or until this time of the event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        # A timer of our own: with a thousand watches the cost of asyncio.timeout is felt.
        timer = loop.call_at(until, _wake_one, future)
        self._sleeping.setdefault(interest, {})[future] = None
        position = interest[0] if interest else None
        if isinstance(position, int):
            self._positions[position] += 1
        try:
            await future
        finally:
            timer.cancel()
            self._leave(interest, future)
            if isinstance(position, int):
                self._positions[position] -= 1

    def _leave(self, interest: Interest, future: asyncio.Future[None]) -> None:
        self._due.pop(future, None)
        others = self._sleeping.get(interest)
        if others is not None:
            others.pop(future, None)
            if not others:
                del self._sleeping[interest]

    def wake(self, events: Iterable[Event]) -> None:
        """Wake whom these events may concern, now or in a round."""
        if not self._sleeping:
            return
        due = self._due
        due.update(self._sleeping.get(None, _NOBODY))
        if len(self._sleeping) > 1 or None not in self._sleeping:
            for event in events:
                for interest in self._touched(event):
                    due.update(self._sleeping.get(interest, _NOBODY))
        if len(self._due) <= AT_ONCE:
            self.ring()
        elif self._round is None:
            delay = min(LONGEST_ROUND, len(self._due) * _SECONDS_EACH)
            self._round = asyncio.get_running_loop().call_later(delay, self.ring)

    def wake_all(self) -> None:
        """Wake everybody: something other than an event has happened."""
        for sleeping in self._sleeping.values():
            self._due.update(sleeping)
        self.ring()

    def ring(self) -> None:
        """Wake those that are due."""
        if self._round is not None:
            self._round.cancel()
            self._round = None
        due, self._due = self._due, {}
        for future in due:
            _wake_one(future)

    def _touched(self, event: Event) -> Iterator[Interest]:
        key = event.entry.key
        yield ("key", key)
        yield ("namespace", key.partition("/")[0])
        if +self._positions:
            yield from self._fields(event.entry)
            if event.previous is not None:
                yield from self._fields(event.previous)

    def _fields(self, entry: Entry) -> Iterator[Interest]:
        for position, watches in self._positions.items():
            if not watches:
                continue
            if entry.fields is None:
                # Not worked out for an entry from the log: whoever asks about it must look.
                yield from [each for each in self._sleeping if each and each[0] == position]
            else:
                yield (position, entry.fields[position])


def _wake_one(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
