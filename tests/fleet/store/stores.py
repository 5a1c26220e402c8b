"""Object stores for tests: in memory, and with faults."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kilonova.objectstore import (
    ListPage,
    NotFound,
    ObjectInfo,
    ObjectReader,
    ObjectStore,
    Precondition,
    PreconditionFailed,
    StoredObject,
    Unavailable,
)
from kilonova.objectstore.interface import MAX_PAGE

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


@dataclass
class Bucket:
    """What is stored, for any number of clients; an ETag is a hash of the content, as on S3."""

    objects: dict[str, bytes] = field(default_factory=dict[str, bytes])
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def etag(self, key: str) -> str:
        return f"{hash(self.objects[key]):x}"


class MemoryStore(ObjectStore):
    """A client of a bucket whose requests may be lost, late or repeated."""

    def __init__(self, bucket: Bucket, name: str = "memory") -> None:
        self.name = name
        self.bucket = bucket
        self.cut = False
        """Nothing arrives."""
        self.hanging = False
        """Requests get no answer, until they are cancelled."""
        self.to_server = 0.0
        self.from_server = 0.0
        self.lost_replies = 0
        """How many of the next writes take effect without a reply."""
        self.requests = 0

    async def head(self, key: str) -> ObjectInfo:
        return (await self.get(key)).info

    @asynccontextmanager
    async def open(self, key: str) -> AsyncGenerator[ObjectReader]:
        await self._travel(self.to_server)
        if key not in self.bucket.objects:
            raise NotFound(f"{self.name}/{key}", "there is no such object")
        found = StoredObject(self._describe(key), self.bucket.objects[key])
        await self._travel(self.from_server)
        yield _Reader(found)

    async def put(self, key: str, body: bytes, when: Precondition | None = None) -> ObjectInfo:
        await self._travel(self.to_server)
        current = self.bucket.etag(key) if key in self.bucket.objects else None
        if when is not None and when.etag != current:
            await self._travel(self.from_server)
            raise PreconditionFailed(f"{self.name}/{key}", "another writer was faster")
        self.bucket.objects[key] = body
        info = self._describe(key)
        if self.lost_replies:
            self.lost_replies -= 1
            raise Unavailable(self.name, "the connection was closed")
        await self._travel(self.from_server)
        return info

    async def upload(
        self, key: str, body: AsyncIterable[bytes], when: Precondition | None = None
    ) -> ObjectInfo:
        return await self.put(key, b"".join([piece async for piece in body]), when)

    async def delete(self, key: str) -> None:
        await self._travel(self.to_server)
        self.bucket.objects.pop(key, None)

    async def list_page(self, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> ListPage:
        await self._travel(self.to_server)
        keys = sorted(
            each for each in self.bucket.objects if each.startswith(prefix) and each > after
        )
        infos = tuple(self._describe(key) for key in keys[:limit])
        return ListPage(infos, keys[limit - 1] if len(keys) > limit else "")

    async def close(self) -> None: ...

    async def _travel(self, seconds: float) -> None:
        self.requests += 1
        if self.cut:
            raise Unavailable(self.name, "no route to host")
        if self.hanging:
            await asyncio.Event().wait()
        if seconds:
            await asyncio.sleep(seconds)

    def _describe(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, len(self.bucket.objects[key]), self.bucket.etag(key), BEGIN)


class _Reader(ObjectReader):
    def __init__(self, found: StoredObject) -> None:
        self.info = found.info
        self._body = found.body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body
