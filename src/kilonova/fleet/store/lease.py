"""The lease of a fleet's leader, as an object of its store."""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from kilonova.kube.election import LeaseConflict, LeaseRecord, LeaseUnavailable, StoredLease
from kilonova.objectstore import (
    IF_ABSENT,
    NotFound,
    ObjectStore,
    ObjectStoreError,
    Precondition,
    PreconditionFailed,
    Unavailable,
    if_match,
)

KEY = "leader.json"


class _LeaseDocument(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What is stored. Two writes never have the same content, since on some stores the ETag is a
    hash of it: one that is written again would be taken for the first."""

    holder: str
    duration_seconds: int
    acquired: str
    renewed: str
    token: int
    nonce: str


class ObjectLeaseStore:
    """A lease under a key of an object store."""

    def __init__(self, objects: ObjectStore, key: str = KEY) -> None:
        self._objects = objects
        self._key = key

    @property
    def name(self) -> str:
        return f"{self._objects.name}/{self._key}"

    async def read(self) -> StoredLease | None:
        async with self._translate_errors():
            found = await self._read_document()
            return None if found is None else _to_stored(*found)

    async def create(self, record: LeaseRecord) -> StoredLease:
        return await self._write(record, IF_ABSENT)

    async def replace(self, record: LeaseRecord, version: str) -> StoredLease:
        return await self._write(record, if_match(version))

    async def _write(self, record: LeaseRecord, when: Precondition) -> StoredLease:
        document = _LeaseDocument(
            holder=record.holder,
            duration_seconds=record.duration_seconds,
            acquired=record.acquired,
            renewed=record.renewed,
            token=record.token,
            nonce=secrets.token_hex(16),
        )
        async with self._translate_errors():
            try:
                body = msgspec.json.encode(document)
                info = await self._objects.put(self._key, body, when)
                return StoredLease(record, info.etag)
            except (Unavailable, PreconditionFailed):
                # The store may have written it although the reply was lost, and the conflict may be
                # with ourselves if a proxy repeated the request.
                found = await self._read_document()
                if found is None or found[0].nonce != document.nonce:
                    raise
                return _to_stored(*found)

    async def _read_document(self) -> tuple[_LeaseDocument, str] | None:
        try:
            found = await self._objects.get(self._key)
        except NotFound as error:
            if error.fix:
                raise  # the bucket is missing, not the object
            return None
        try:
            return msgspec.json.decode(found.body, type=_LeaseDocument), found.info.etag
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            fix = "stop all managers of the fleet, and delete it"
            raise LeaseUnavailable(f"{self.name}: it is no lease: {error}; {fix}") from error

    @asynccontextmanager
    async def _translate_errors(self) -> AsyncGenerator[None]:
        try:
            yield
        except PreconditionFailed as error:
            raise LeaseConflict(str(error)) from error
        except ObjectStoreError as error:
            raise LeaseUnavailable(str(error)) from error


def _to_stored(document: _LeaseDocument, version: str) -> StoredLease:
    record = LeaseRecord(
        document.holder,
        document.duration_seconds,
        document.acquired,
        document.renewed,
        document.token,
    )
    return StoredLease(record, version)
