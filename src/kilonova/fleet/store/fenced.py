"""An object store that takes writes only from a valid leader."""

from collections.abc import AsyncIterable
from contextlib import AbstractAsyncContextManager

from kilonova.kube.election import Leadership
from kilonova.objectstore import ListPage, ObjectInfo, ObjectReader, ObjectStore, Precondition
from kilonova.objectstore.interface import MAX_PAGE


class FencedObjectStore(ObjectStore):
    """Reads always pass; writes raise `LeadershipLost` after the leadership has ended.

    The other store is not closed with it.
    """

    def __init__(self, inner: ObjectStore, leadership: Leadership) -> None:
        self.name = inner.name
        self._inner = inner
        self._leadership = leadership

    async def head(self, key: str) -> ObjectInfo:
        return await self._inner.head(key)

    def open(self, key: str) -> AbstractAsyncContextManager[ObjectReader]:
        return self._inner.open(key)

    async def put(self, key: str, body: bytes, when: Precondition | None = None) -> ObjectInfo:
        async with self._leadership.guard_write():
            return await self._inner.put(key, body, when)

    async def upload(
        self, key: str, body: AsyncIterable[bytes], when: Precondition | None = None
    ) -> ObjectInfo:
        async with self._leadership.guard_write():
            return await self._inner.upload(key, body, when)

    async def delete(self, key: str) -> None:
        async with self._leadership.guard_write():
            await self._inner.delete(key)

    async def list_page(self, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> ListPage:
        return await self._inner.list_page(prefix, after, limit)

    async def close(self) -> None:
        """Nothing is held."""
