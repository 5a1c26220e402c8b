"""Waits until a cache shows the controller's own writes.

A cache lags behind the server by microseconds, or by the time that a watch needs to reconnect. A
controller that decides on the state before its own last write would create pods twice. So at the
end of each reconcile it waits until its caches have observed all that it wrote.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kilonova.kube import Reflector
from kilonova.kube.informers.object_keys import Key

T = TypeVar("T")

_TIMEOUT_SECONDS = 300.0
"""After this time the change is not expected any more: the object was deleted while a watch was
broken."""


class Expectations(Generic[T]):
    """Observes one store for a writer. Resource versions grow with every write in a cluster."""

    def __init__(self, cache: Reflector[T]) -> None:
        self._store = cache.store
        self._observed_version = 0
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        cache.store.add_event_handler(self._on_change)

    def _on_change(self, old: T | None, new: T | None) -> None:
        if new is not None:
            self._observed_version = max(self._observed_version, int(self._store.version_of(new)))
        if self._waiters:
            self._waiters = [waiting for waiting in self._waiters if not _resolve_if_met(*waiting)]

    async def wait_for_version(self, version: str) -> None:
        """Return when the store has observed at least this version."""
        expected_version = int(version)
        await self._wait_until(lambda: self._observed_version >= expected_version)

    async def wait_for_deletion(self, key: Key, uid: str) -> None:
        """Return when the object is deleted, or is observed as terminating."""

        def deleted() -> bool:
            found: Any = self._store.get(key)
            if found is None:
                return True
            return found.metadata.uid != uid or bool(found.metadata.deletion_timestamp)

        await self._wait_until(deleted)

    async def wait_for_removal(self, key: Key, uid: str) -> None:
        """Return when the object has been removed."""

        def removed() -> bool:
            found: Any = self._store.get(key)
            return found is None or found.metadata.uid != uid

        await self._wait_until(removed)

    async def _wait_until(self, is_met: Callable[[], bool]) -> None:
        if is_met():
            return
        observed = asyncio.get_running_loop().create_future()
        self._waiters.append((is_met, observed))
        # On a timeout the reconcile fails, and the next one starts from what is known by then.
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            await observed


def _resolve_if_met(is_met: Callable[[], bool], observed: asyncio.Future[None]) -> bool:
    if observed.done():
        return True
    if is_met():
        observed.set_result(None)
    return observed.done()
