"""The object store on three object stores."""

import asyncio
import hashlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from kilonova.api.times import format_rfc3339, parse_time
from kilonova.fleet.store.quorum.majority import Requests
from kilonova.fleet.store.quorum.proposer import Content, Proposer
from kilonova.fleet.store.quorum.register import Value
from kilonova.fleet.store.quorum.replica import FOLDER, Replica
from kilonova.objectstore import (
    Checksum,
    ListPage,
    NotFound,
    ObjectInfo,
    ObjectReader,
    ObjectStore,
    Precondition,
    PreconditionFailed,
)
from kilonova.objectstore.interface import MAX_PAGE
from kilonova.objectstore.keys import check_key, check_prefix

_CONCURRENT_READS = 16


class QuorumStore(ObjectStore):
    """Small objects on three stores, of which any two suffice. Closes them with itself."""

    def __init__(
        self,
        stores: tuple[ObjectStore, ObjectStore, ObjectStore],
        *,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_id: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self.name = ",".join(each.name for each in stores)
        self._stores = stores
        self._wall = wall
        self._replicas = tuple(Replica(each) for each in stores)
        self._new_id = new_id
        self._proposer = Proposer(self.name, self._replicas, new_id)
        self._requests = Requests()
        # What lists returned, by the ETags in the three stores: few objects change between lists.
        self._listed: dict[str, tuple[tuple[str, ...], ObjectInfo | None]] = {}

    async def head(self, key: str) -> ObjectInfo:
        return _build_info(key, await self._read(key))

    @asynccontextmanager
    async def open(self, key: str) -> AsyncGenerator[ObjectReader]:
        content = await self._read(key)
        yield _ContentReader(_build_info(key, content), content.body)

    async def put(self, key: str, body: bytes, when: Precondition | None = None) -> ObjectInfo:
        check_key(self.name, key)
        version = self._new_id()

        def replace(current: Value) -> Content:
            found = None if current.deleted else current.version
            if when is not None and found != when.etag:
                problem = "there is no object" if found is None else "another writer replaced it"
                raise PreconditionFailed(f"{self.name}/{key}", problem)
            modified = format_rfc3339(self._wall())
            return Content(current.build_next(version, modified, len(body), deleted=False), body)

        return _build_info(key, await self._proposer.change(key, replace))

    async def upload(
        self, key: str, body: AsyncIterable[bytes], when: Precondition | None = None
    ) -> ObjectInfo:
        return await self.put(key, b"".join([piece async for piece in body]), when)

    async def delete(self, key: str) -> None:
        check_key(self.name, key)
        version = self._new_id()

        def remove(current: Value) -> Content | None:
            if current.deleted:
                return None
            modified = format_rfc3339(self._wall())
            return Content(current.build_next(version, modified, 0, deleted=True), b"")

        await self._proposer.change(key, remove)

    async def list_page(self, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> ListPage:
        check_prefix(self.name, prefix)
        answers = await self._requests.ask(
            self.name,
            {
                index: each.list_page(prefix, after, limit)
                for index, each in enumerate(self._replicas)
            },
            lambda found: True,
        )
        pages = answers.values
        ends = [page.next_after[len(FOLDER) :] for page in pages.values() if page.next_after]
        end = min(ends, default="")
        etags: dict[str, dict[int, str]] = {}
        for index, page in pages.items():
            for each in page.objects:
                key = each.key[len(FOLDER) :]
                if not end or key <= end:
                    etags.setdefault(key, {})[index] = each.etag
        keys = sorted(etags)
        more = bool(end) or len(keys) > limit
        keys = keys[:limit]
        reads = asyncio.Semaphore(_CONCURRENT_READS)
        infos = await asyncio.gather(*(self._describe(key, etags[key], reads) for key in keys))
        found = tuple(each for each in infos if each is not None)
        return ListPage(found, (keys[-1] if keys else end) if more else "")

    async def close(self) -> None:
        await self._requests.close()
        await self._proposer.close()
        await asyncio.gather(*(each.close() for each in self._stores))

    async def _describe(
        self, key: str, etags: dict[int, str], reads: asyncio.Semaphore
    ) -> ObjectInfo | None:
        """The object; None if it is deleted."""
        stamp = tuple(f"{index}:{etag}" for index, etag in sorted(etags.items()))
        known = self._listed.get(key)
        if known is not None and known[0] == stamp:
            return known[1]
        async with reads:
            content = await self._proposer.read(key)
        info = None if content.value.deleted else _build_info(key, content)
        self._listed[key] = stamp, info
        return info

    async def _read(self, key: str) -> Content:
        check_key(self.name, key)
        content = await self._proposer.read(key)
        if content.value.deleted:
            raise NotFound(f"{self.name}/{key}", "there is no such object")
        return content


class _ContentReader(ObjectReader):
    def __init__(self, info: ObjectInfo, body: bytes) -> None:
        self.info = info
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


def _build_info(key: str, content: Content) -> ObjectInfo:
    value = content.value
    checksum = Checksum("sha256", hashlib.sha256(content.body).hexdigest())
    return ObjectInfo(key, value.size, value.version, parse_time(value.modified), checksum)
