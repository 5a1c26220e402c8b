"""Object stores for tests: in memory, and with faults."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random

from kilonova.objectstore import (
    ListPage,
    NotFound,
    ObjectInfo,
    ObjectReader,
    ObjectStore,
    Precondition,
    PreconditionFailed,
    Unavailable,
)
from kilonova.objectstore.interface import MAX_PAGE

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


@dataclass
class Bucket:
    """What is stored, for any number of clients; an ETag is a hash of the content, as on S3."""

    objects: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def etag(self, key: str) -> str:
        return hashlib.md5(self.objects[key], usedforsecurity=False).hexdigest()

    def put(self, name: str, key: str, body: bytes, when: Precondition | None) -> ObjectInfo:
        """Write at once, or raise."""
        current = self.etag(key) if key in self.objects else None
        if when is not None and when.etag != current:
            raise PreconditionFailed(f"{name}/{key}", "another writer was faster")
        self.objects[key] = body
        return self.describe(key)

    def describe(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, len(self.objects[key]), self.etag(key), BEGIN)


@dataclass
class Link:
    """The network between one client and one bucket."""

    cut: bool = False
    """Requests fail at once."""
    hanging: bool = False
    """Requests get no answer, until they are cancelled."""
    delay: float = 0.0
    """The longest time that a message takes, in seconds."""
    loss: float = 0.0
    """How probable it is that a request, and that a reply, is lost or arrives after the client has
    given up, and that a request arrives twice."""
    random: Random = field(default_factory=Random)
    requests: int = 0

    async def travel(self) -> None:
        if self.cut:
            raise Unavailable("network", "no route to host")
        if self.hanging:
            await asyncio.Event().wait()
        if self.delay:
            await asyncio.sleep(self.random.uniform(0, self.delay))

    def fails(self) -> bool:
        return self.random.random() < self.loss


class MemoryStore(ObjectStore):
    """A client of a bucket."""

    def __init__(self, bucket: Bucket, link: Link | None = None, name: str = "memory") -> None:
        self.name = name
        self.bucket = bucket
        self.link = link or Link()

    async def head(self, key: str) -> ObjectInfo:
        return (await self.get(key)).info

    @asynccontextmanager
    async def open(self, key: str) -> AsyncGenerator[ObjectReader]:
        await self._send()
        body = self.bucket.objects.get(key)
        info = None if body is None else self.bucket.describe(key)
        await self._receive()
        if info is None or body is None:
            raise NotFound(f"{self.name}/{key}", "there is no such object")
        yield _Reader(info, body)

    async def put(self, key: str, body: bytes, when: Precondition | None = None) -> ObjectInfo:
        def arrive_late() -> None:
            # Whatever comes of it, there is no one to hear.
            with suppress(PreconditionFailed):
                self.bucket.put(self.name, key, body, when)

        if self.link.fails():
            asyncio.get_running_loop().call_later(20 * self.link.random.random(), arrive_late)
            raise Unavailable(self.name, "the request timed out")
        await self._send()
        try:
            info = self.bucket.put(self.name, key, body, when)
        finally:
            if self.link.fails():
                asyncio.get_running_loop().call_later(20 * self.link.random.random(), arrive_late)
            await self._receive()
        return info

    async def upload(
        self, key: str, body: AsyncIterable[bytes], when: Precondition | None = None
    ) -> ObjectInfo:
        return await self.put(key, b"".join([piece async for piece in body]), when)

    async def delete(self, key: str) -> None:
        await self._send()
        self.bucket.objects.pop(key, None)
        await self._receive()

    async def list_page(self, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> ListPage:
        await self._send()
        keys = sorted(
            each for each in self.bucket.objects if each.startswith(prefix) and each > after
        )
        infos = tuple(self.bucket.describe(key) for key in keys[:limit])
        return ListPage(infos, keys[limit - 1] if len(keys) > limit else "")

    async def close(self) -> None: ...

    async def _send(self) -> None:
        self.link.requests += 1
        await self.link.travel()

    async def _receive(self) -> None:
        await self.link.travel()
        if self.link.fails():
            raise Unavailable(self.name, "the reply was lost")


class _Reader(ObjectReader):
    def __init__(self, info: ObjectInfo, body: bytes) -> None:
        self.info = info
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body
