"""Waiting until a cache shows what was written.

A cache lags behind the server by microseconds, or by as long as a watch takes to come back. A
controller that decided on the state before its own last write would create pods twice. So it
waits, at the end of each round, until its caches have seen all that it wrote.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kilonova.kube import Reflector
from kilonova.kube.identity import Key

T = TypeVar("T")

_PATIENCE = 300.0
"""Seconds after which an answer will not come: what was written went while a watch was broken."""


class Echo(Generic[T]):
    """Watches one cache on behalf of a writer. Versions grow with every write of a cluster."""

    def __init__(self, cache: Reflector[T]) -> None:
        self._store = cache.store
        self._seen = 0
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        cache.store.subscribe(self._changed)

    def _changed(self, old: T | None, new: T | None) -> None:
        if new is not None:
            self._seen = max(self._seen, int(self._store.version_of(new)))
        if self._waiting:
            self._waiting = [waiting for waiting in self._waiting if not _answered(*waiting)]

    async def of_version(self, version: str) -> None:
        """Return when a change of at least that version has come."""
        wanted = int(version)
        await self._until(lambda: self._seen >= wanted)

    async def of_deletion(self, key: Key, uid: str) -> None:
        """Return when an object is gone, or is seen to be going."""

        def deleted() -> bool:
            found: Any = self._store.get(key)
            if found is None:
                return True
            return found.metadata.uid != uid or bool(found.metadata.deletion_timestamp)

        await self._until(deleted)

    async def of_departure(self, key: Key, uid: str) -> None:
        """Return when an object is gone."""

        def gone() -> bool:
            found: Any = self._store.get(key)
            return found is None or found.metadata.uid != uid

        await self._until(gone)

    async def _until(self, holds: Callable[[], bool]) -> None:
        if holds():
            return
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((holds, answer))
        # Without an answer the round fails, and the next one begins with what is known by then.
        async with asyncio.timeout(_PATIENCE):
            await answer


def _answered(holds: Callable[[], bool], answer: asyncio.Future[None]) -> bool:
    if answer.done():
        return True
    if holds():
        answer.set_result(None)
    return answer.done()
