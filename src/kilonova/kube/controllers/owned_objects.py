"""Writes the objects of one kind that belong to an owner: it is their controller.

Every write is idempotent, and waits until the cache shows it.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar, cast

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube.client.client import Client
from kilonova.kube.client.errors import AlreadyExists, Conflict, NotFound
from kilonova.kube.client.merge_patch import needs_patch
from kilonova.kube.client.options import PatchType
from kilonova.kube.client.resource import Resource
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.slow_start import SlowStart, raise_first_failure
from kilonova.kube.owner_references import is_controlled_by


class ApiObject(Protocol):
    """An object of the API."""

    @property
    def metadata(self) -> Metadata: ...


T = TypeVar("T", bound=ApiObject)


class NameTaken(Exception):
    """An object that the owner needs exists, and belongs to something else."""

    def __init__(self, kind: str, name: str, owner_noun: str) -> None:
        super().__init__(
            f"{kind} {name} belongs to another object: delete it, or rename the {owner_noun}"
        )


@dataclass(frozen=True, slots=True)
class OwnedObjectWriter(Generic[T]):
    """Writes the owned objects of one kind."""

    client: Client
    resource: Resource[T]
    expectations: Expectations[T]
    owner_noun: str
    """What the owner is called in errors: `workload`."""

    async def apply_changes(self, live: T | None, wanted: JsonObject, owner: Metadata) -> None:
        """Apply an object if the live one differs from it. The cache may lack an object of the
        name that belongs to another owner."""
        if live is None:
            await self.require_free_name(wanted, owner)
        elif not is_controlled_by(live.metadata, owner):
            raise self._name_taken(live.metadata.name)
        elif not needs_patch(cast("JsonObject", msgspec.to_builtins(live)), wanted):
            return
        await self.apply(wanted, owner)

    async def apply(self, wanted: JsonObject, owner: Metadata) -> None:
        """Apply an object."""
        name = wanted["metadata"]["name"]
        written = await self.client.apply(self.resource, name, wanted, owner.namespace)
        await self.wait_for_cache([written])

    async def require_free_name(self, wanted: JsonObject, owner: Metadata) -> None:
        """Raise `NameTaken` if the server has an object of the name that is not the owner's."""
        name = wanted["metadata"]["name"]
        try:
            existing = await self.client.get(self.resource, name, owner.namespace)
        except NotFound:
            return
        if not is_controlled_by(existing.metadata, owner):
            raise self._name_taken(name)

    async def create_all(
        self, bodies: Sequence[JsonObject], owner: Metadata, slow_start: SlowStart
    ) -> None:
        """Create objects with slow start: what rejects one likely rejects all of the owner."""
        created: list[T] = []
        try:
            calls = [partial(self._create, body, owner, created) for body in bodies]
            await slow_start.run(owner.uid, calls)
        finally:
            await self.wait_for_cache(created)

    async def patch_all(self, objects: Iterable[T], patch: JsonObject) -> None:
        """Patch objects concurrently with a strategic merge patch; those that are gone are left
        out."""
        results = await asyncio.gather(
            *(self._patch(each.metadata, patch) for each in objects), return_exceptions=True
        )
        written = [each for each in results if not isinstance(each, BaseException)]
        await self.wait_for_cache([each for each in written if each is not None])
        raise_first_failure(results)

    async def delete(self, metadata: Metadata) -> None:
        """Delete an object, unless it is gone."""
        if await self._request_deletion(metadata):
            await self._wait_for_deletion(metadata)

    async def delete_all(self, objects: Sequence[Metadata], forced: Collection[str] = ()) -> None:
        """Delete objects concurrently; those with the `forced` uids without a grace period."""
        results = await asyncio.gather(
            *(self._request_deletion(each, is_forced=each.uid in forced) for each in objects),
            return_exceptions=True,
        )
        for known, result in zip(objects, results, strict=True):
            if not isinstance(result, BaseException):
                await self._wait_for_deletion(known)
        raise_first_failure(results)

    async def wait_for_cache(self, written: Iterable[T]) -> None:
        """Return when the cache shows objects as they were written, or newer."""
        versions = [each.metadata.resource_version for each in written]
        if versions:
            await self.expectations.wait_for_version(max(versions, key=int))

    async def _create(self, body: JsonObject, owner: Metadata, created: list[T]) -> None:
        name, namespace = body["metadata"]["name"], owner.namespace
        try:
            created.append(await self.client.create(self.resource, body, namespace))
        except AlreadyExists:
            # Created by an earlier attempt whose response was lost.
            existing = await self.client.get(self.resource, name, namespace)
            if not is_controlled_by(existing.metadata, owner):
                raise self._name_taken(name) from None
            created.append(existing)

    async def _patch(self, known: Metadata, patch: JsonObject) -> T | None:
        body = {**patch, "metadata": {"uid": known.uid}}
        try:
            return await self.client.patch(
                self.resource, known.name, body, known.namespace, patch_type=PatchType.STRATEGIC
            )
        except (NotFound, Conflict):
            return None

    async def _request_deletion(self, known: Metadata, *, is_forced: bool = False) -> bool:
        """False if the object is gone, or another one has its name."""
        grace = 0 if is_forced else None
        try:
            await self.client.delete(
                self.resource,
                known.name,
                known.namespace,
                uid=known.uid,
                grace_period_seconds=grace,
            )
        except (NotFound, Conflict):
            return False
        return True

    async def _wait_for_deletion(self, known: Metadata) -> None:
        await self.expectations.wait_for_deletion((known.namespace, known.name), known.uid)

    def _name_taken(self, name: str) -> NameTaken:
        return NameTaken(self.resource.kind, name, self.owner_noun)
