"""Documents in an object store: typed, conditional writes, and few reads of what did not change."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from kilonova.fleet.documents import DocumentKind
from kilonova.fleet.store.lease import ObjectLeaseStore
from kilonova.kube.election import LeaseStore
from kilonova.objectstore import (
    IF_ABSENT,
    NotFound,
    ObjectStore,
    ObjectStoreError,
    PreconditionFailed,
    Unavailable,
    if_match,
)

T = TypeVar("T", bound=msgspec.Struct)

_ENDING = ".json"
_CONCURRENT_READS = 16


@dataclass(frozen=True, slots=True)
class StoredDocument(Generic[T]):
    """A document and its version, which is for the next write of it."""

    document: T
    version: str


class InvalidDocument(ObjectStoreError):
    """The content of an object is not a document of its kind."""


class FleetStore:
    """The documents of a fleet. Methods raise `ObjectStoreError`s.

    Any number of calls may run at once. `version` None creates a document, which must not exist
    then; another version replaces the document that was read or written under it, and no other
    (`PreconditionFailed`).
    """

    def __init__(self, objects: ObjectStore, lease: LeaseStore | None = None) -> None:
        self.objects = objects
        self.lease = lease or ObjectLeaseStore(objects)
        """The lease of the leader."""
        self._read: dict[str, tuple[str, StoredDocument[Any]]] = {}
        self._reads = asyncio.Semaphore(_CONCURRENT_READS)

    @property
    def name(self) -> str:
        """What is stored where, for logs and errors."""
        return self.objects.name

    async def read(self, kind: DocumentKind[T], *parts: str) -> StoredDocument[T] | None:
        """The latest document with this key; None if there is none."""
        key = kind.key(*parts) + _ENDING
        try:
            found = await self.objects.get(key)
        except NotFound as error:
            if error.fix:
                raise  # no bucket, rather than no object
            return None
        return StoredDocument(self._decode(kind, key, found.body), found.info.etag)

    async def read_all(
        self,
        kind: DocumentKind[T],
        on_invalid: Callable[[InvalidDocument], None] | None = None,
    ) -> list[StoredDocument[T]]:
        """All documents of a kind, by key. Those that did not change are not read again.

        Documents that cannot be decoded are left out and reported to `on_invalid`; without it they
        are an error.
        """
        prefix = f"{kind.prefix}/"
        listed = [each async for each in self.objects.list(prefix) if each.key.endswith(_ENDING)]
        keys = {each.key for each in listed}
        for key in [key for key in self._read if key.startswith(prefix) and key not in keys]:
            del self._read[key]
        read = await asyncio.gather(
            *(self._read_listed(kind, each.key, each.etag, on_invalid) for each in listed)
        )
        return [each for each in read if each is not None]

    async def write(
        self, kind: DocumentKind[T], document: T, version: str | None
    ) -> StoredDocument[T]:
        """Create or replace a document.

        A write whose reply was lost is found out by reading: documents that differ in meaning
        differ in epoch, sequence or nonce, so that equal content is the content of this write.
        """
        key = kind.key(*kind.key_parts(document)) + _ENDING
        body = msgspec.json.encode(document)
        try:
            when = IF_ABSENT if version is None else if_match(version)
            info = await self.objects.put(key, body, when)
        except (Unavailable, PreconditionFailed):
            found = await self._get_or_none(key)
            if found is None or found[0] != body:
                raise
            return StoredDocument(document, found[1])
        return StoredDocument(document, info.etag)

    async def delete(self, kind: DocumentKind[Any], *parts: str) -> None:
        """Delete a document; no error if there is none."""
        await self.objects.delete(kind.key(*parts) + _ENDING)

    async def close(self) -> None:
        """Release connections and threads."""
        await self.objects.close()

    async def _read_listed(
        self,
        kind: DocumentKind[T],
        key: str,
        etag: str,
        on_invalid: Callable[[InvalidDocument], None] | None,
    ) -> StoredDocument[T] | None:
        known = self._read.get(key)
        if known is not None and known[0] == etag:
            return known[1]
        async with self._reads:
            found = await self._get_or_none(key)
        if found is None:
            return None
        try:
            stored = StoredDocument(self._decode(kind, key, found[0]), found[1])
        except InvalidDocument as error:
            if on_invalid is None:
                raise
            on_invalid(error)
            return None
        self._read[key] = (stored.version, stored)
        return stored

    async def _get_or_none(self, key: str) -> tuple[bytes, str] | None:
        try:
            found = await self.objects.get(key)
        except NotFound:
            return None
        return found.body, found.info.etag

    def _decode(self, kind: DocumentKind[T], key: str, body: bytes) -> T:
        try:
            return msgspec.json.decode(body, type=kind.type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            fix = "delete it, or write it again with a version of Kilonova that knows its fields"
            raise InvalidDocument(f"{self.name}/{key}", str(error), fix) from error
