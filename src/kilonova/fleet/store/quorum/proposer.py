"""The rounds of CASPaxos: reading and changing the register of a key."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from kilonova.fleet.store.quorum.majority import MAJORITY, Requests
from kilonova.fleet.store.quorum.register import (
    Acceptor,
    AcceptorState,
    Ballot,
    Value,
)
from kilonova.fleet.store.quorum.replica import Replica
from kilonova.objectstore import ObjectStoreError, Unavailable

_MAX_ROUNDS = 20
_MIN_BACKOFF_SECONDS = 0.01
_MAX_BACKOFF_SECONDS = 0.5
_MAX_HELD = 10_000


@dataclass(frozen=True, slots=True)
class Content:
    """A version of an object, and its content."""

    value: Value
    body: bytes


Change = Callable[[Value], Content | None]
"""From the current version to the next one; None changes nothing. Raises what the writer gets."""


@dataclass(slots=True)
class _Promise:
    """A ballot that two stores have promised, and the value that was chosen before it."""

    ballot: Ballot
    current: Content
    acceptors: dict[int, Acceptor] = field(default_factory=dict[int, Acceptor])


class Proposer:
    """Reads and changes registers. Changes of one key happen one after another."""

    def __init__(
        self,
        name: str,
        replicas: tuple[Replica, ...],
        new_id: Callable[[], str],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._name = name
        self._replicas = replicas
        self._new_id = new_id
        self._jitter = jitter
        self._requests = Requests()
        # Promises for our next write of a key. Each is used once.
        self._held: dict[str, _Promise] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def read(self, key: str) -> Content:
        """The chosen value, at some time during the call."""
        for attempt in range(2):
            if attempt:
                await self._back_off(attempt)  # a write may be under way
            answers = await self._requests.ask(
                self._name,
                {index: each.read(key) for index, each in enumerate(self._replicas)},
                lambda found: _find_chosen(found.values()) is not None,
            )
            chosen = _find_chosen(answers.values.values())
            if chosen is not None:
                return chosen
        return await self.change(key, lambda current: None)

    async def change(self, key: str, change: Change) -> Content:
        """Choose the next value, and return it; with a `change` that changes nothing, the current.

        `Unavailable` if too few stores answer, or if it cannot be found out whether the value was
        chosen.
        """
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            return await self._change(key, change)

    async def _change(self, key: str, change: Change) -> Content:
        # What was proposed, and what it was to replace.
        proposed: tuple[Content, Value] | None = None
        held = self._held.pop(key, None)
        # Others may have written since we did: what we know is good only for a proposal.
        following = None if held is None else _try_change(change, held.current.value)
        if held is not None and following is not None:
            if await self._propose(key, held, following):
                return following
            proposed = following, held.current.value
        for attempt in range(_MAX_ROUNDS):
            if attempt:
                await self._back_off(attempt)
            promise = await self._prepare(key)
            if promise is None:
                continue
            current = promise.current.value
            if proposed is not None:
                ours, replaced = proposed
                if ours.value.version in (current.version, *current.previous):
                    return ours
                if current.version != replaced.version:
                    if replaced.version not in current.previous:
                        raise Unavailable(f"{self._name}/{key}", "the result is not known")
                    proposed = None
            if proposed is None:
                following = self._plan(key, promise, change)
                if following is None:
                    return promise.current
                proposed = following, current
            if await self._propose(key, promise, proposed[0]):
                return proposed[0]
        raise Unavailable(f"{self._name}/{key}", "too many concurrent writers", "try again")

    async def close(self) -> None:
        """End requests that are under way."""
        await self._requests.close()

    def _plan(self, key: str, promise: _Promise, change: Change) -> Content | None:
        following = None
        try:
            following = change(promise.current.value)
        finally:
            if following is None:
                self._hold(key, promise)
        return following

    async def _prepare(self, key: str) -> _Promise | None:
        """A promise of two stores upon a chosen value; None if another writer was faster."""
        known = await self._requests.ask(
            self._name,
            {index: each.read(key) for index, each in enumerate(self._replicas)},
            lambda found: True,
        )
        counter = max(each.state.promised.counter for each in known.values.values())
        ballot = Ballot(counter + 1, self._new_id())
        answers = await self._requests.ask(
            self._name,
            {
                index: each.promise(key, ballot, known.values.get(index))
                for index, each in enumerate(self._replicas)
            },
            _is_decided,
        )
        acceptors = {index: each for index, each in answers.values.items() if each is not None}
        if len(acceptors) < MAJORITY:
            return None
        newest = max(acceptors.values(), key=lambda each: each.state.accepted)
        newest_ballot = newest.state.accepted
        promise = _Promise(ballot, Content(newest.state.value, newest.body), acceptors)
        agreeing = [each for each in acceptors.values() if each.state.accepted == newest_ballot]
        if len(agreeing) >= MAJORITY:
            return promise
        # The newest value may have been chosen, or not yet: now it is.
        if not await self._propose(key, promise, promise.current):
            return None
        return self._held.pop(key)

    async def _propose(self, key: str, promise: _Promise, content: Content) -> bool:
        """Whether the value was chosen; if so, the next ballot is promised with it."""
        following = _Promise(promise.ballot.next_of_same(), content)
        state = AcceptorState(following.ballot, promise.ballot, content.value)

        async def accept(index: int, replica: Replica) -> Acceptor | None:
            known = promise.acceptors.get(index)
            acceptor = await replica.accept(key, state, content.body, known)
            if acceptor is not None:
                # Those that answer late are known then, too.
                following.acceptors[index] = acceptor
            return acceptor

        answers = await self._requests.ask(
            self._name,
            {index: accept(index, each) for index, each in enumerate(self._replicas)},
            _is_decided,
        )
        if sum(each is not None for each in answers.values.values()) < MAJORITY:
            return False
        self._hold(key, following)
        return True

    def _hold(self, key: str, promise: _Promise) -> None:
        self._held[key] = promise
        if len(self._held) > _MAX_HELD:
            del self._held[next(iter(self._held))]

    async def _back_off(self, attempt: int) -> None:
        longest = min(_MAX_BACKOFF_SECONDS, _MIN_BACKOFF_SECONDS * 2**attempt)
        await asyncio.sleep(longest * self._jitter())


def _try_change(change: Change, current: Value) -> Content | None:
    with suppress(ObjectStoreError):
        return change(current)
    return None


def _is_decided(found: Mapping[int, Acceptor | None]) -> bool:
    """Whether two stores agreed, or two refused."""
    agreed = sum(each is not None for each in found.values())
    return max(agreed, len(found) - agreed) >= MAJORITY


def _find_chosen(found: Iterable[Acceptor]) -> Content | None:
    """The value that two stores have accepted in one ballot; None if there is none among these."""
    seen: set[Ballot] = set()
    for each in found:
        if each.state.accepted in seen:
            return Content(each.state.value, each.body)
        seen.add(each.state.accepted)
    return None
