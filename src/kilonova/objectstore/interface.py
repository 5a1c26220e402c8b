"""The interface of an object store."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime

from kilonova.objectstore.checksums import Checksum
from kilonova.objectstore.errors import ObjectTooLarge

DEFAULT_MAX_BYTES = 64 * 1024 * 1024
"""How much `get` reads into memory unless specified otherwise."""
MAX_PAGE = 1000
"""Most objects on one page of a list."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a store knows about an object without reading it."""

    key: str
    size: int
    etag: str
    modified: datetime
    checksum: Checksum | None = None
    """None if the object was written by other means, or if it comes from a list."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object with its content."""

    info: ObjectInfo
    body: bytes


@dataclass(frozen=True, slots=True)
class ListPage:
    """Some objects in the order of their keys; `next_after` is empty on the last page."""

    objects: tuple[ObjectInfo, ...]
    next_after: str = ""


@dataclass(frozen=True, slots=True)
class Precondition:
    """What must hold for a write: the object has this ETag, or (None) there is no object."""

    etag: str | None


IF_ABSENT = Precondition(None)
"""Create the object; `PreconditionFailed` if there is one."""


def if_match(etag: str) -> Precondition:
    """Replace what was read or written under this ETag; `PreconditionFailed` if it changed."""
    return Precondition(etag)


class ObjectReader(ABC):
    """The content of one object, in pieces. The checksum is verified when all was read."""

    info: ObjectInfo

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[bytes]: ...


class ObjectStore(ABC):
    """Objects by key. Methods raise `ObjectStoreError`s; any number of calls may run at once."""

    name: str
    """`s3://bucket/prefix`, or the path of a directory."""

    @abstractmethod
    async def head(self, key: str) -> ObjectInfo:
        """Describe an object; `NotFound` if there is none."""

    @abstractmethod
    def open(self, key: str) -> AbstractAsyncContextManager[ObjectReader]:
        """Read an object of any size in pieces, as it was when it was opened."""

    @abstractmethod
    async def put(self, key: str, body: bytes, when: Precondition | None = None) -> ObjectInfo:
        """Write an object whose content is in memory."""

    @abstractmethod
    async def upload(
        self, key: str, body: AsyncIterable[bytes], when: Precondition | None = None
    ) -> ObjectInfo:
        """Write an object of any size from a stream, with a bounded amount of memory.

        The object appears when the stream has ended; if it fails, nothing changes.
        """

    @abstractmethod
    async def delete(self, key: str) -> None:
        """Delete an object; no error if there is none."""

    @abstractmethod
    async def list_page(self, prefix: str = "", after: str = "", limit: int = MAX_PAGE) -> ListPage:
        """The first objects whose keys start with `prefix` and sort after `after`."""

    @abstractmethod
    async def close(self) -> None:
        """Release connections and threads. Calls in progress may fail."""

    async def get(self, key: str, *, max_bytes: int = DEFAULT_MAX_BYTES) -> StoredObject:
        """Read an object into memory; `ObjectTooLarge` if it has more than `max_bytes`."""
        async with self.open(key) as reader:
            if reader.info.size > max_bytes:
                raise ObjectTooLarge(
                    f"{self.name}/{key}",
                    f"it has {reader.info.size} bytes, more than the {max_bytes} expected",
                    "read it in pieces",
                )
            return StoredObject(reader.info, b"".join([piece async for piece in reader]))

    async def list(self, prefix: str = "") -> AsyncGenerator[ObjectInfo]:
        """All objects whose keys start with `prefix`, in the order of their keys."""
        after = ""
        while True:
            page = await self.list_page(prefix, after)
            for each in page.objects:
                yield each
            if not page.next_after:
                return
            after = page.next_after

    async def __aenter__(self) -> "ObjectStore":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()
