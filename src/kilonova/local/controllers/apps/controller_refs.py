"""Claiming: a workload adopts matching objects without a controller, and releases the rest."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Client, Invalid, KubeError, NotFound, PatchType, Resource
from kilonova.kube.controllers.expectations import Expectations
from kilonova.local.controllers.apps.objects import WorkloadObject
from kilonova.local.controllers.shared.indexes import ControlledObject

T = TypeVar("T", bound=ControlledObject)


class AdoptionRefused(KubeError):
    """The workload is deleted, or being deleted, according to the server."""


@dataclass(frozen=True, slots=True)
class ClaimResult(Generic[T]):
    """The objects that a workload keeps, those to adopt, and those to release."""

    owned: list[T]
    to_adopt: list[T]
    to_release: list[T]


def match_controlled_objects(
    owner: Metadata, candidates: Iterable[T], matches: Callable[[T], bool]
) -> ClaimResult[T]:
    """Classify what a workload controls and what has no controller; other objects are ignored.

    A workload that is being deleted neither adopts nor releases.
    """
    found: ClaimResult[T] = ClaimResult([], [], [])
    for obj in candidates:
        controller = obj.metadata.controller
        if controller is not None:
            if controller.uid != owner.uid:
                continue
            if matches(obj):
                found.owned.append(obj)
            elif owner.deletion_timestamp is None:
                found.to_release.append(obj)
        elif (
            owner.deletion_timestamp is None
            and obj.metadata.deletion_timestamp is None
            and obj.metadata.namespace == owner.namespace
            and matches(obj)
        ):
            found.to_adopt.append(obj)
    return found


def build_controller_reference(resource: Resource[Any], owner: Metadata) -> JsonObject:
    """The owner reference that makes `owner` the controller of an object."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


class ControllerRefManager:
    """Executes claims of one kind of workload, and waits until the caches show them."""

    def __init__(self, client: Client, owners: Resource[Any]) -> None:
        self._client = client
        self._owners = owners.as_type(WorkloadObject)

    async def adopt_and_release(
        self,
        owner: Metadata,
        claimed: ClaimResult[T],
        resource: Resource[T],
        writes: Expectations[T],
    ) -> list[T]:
        """Adopt and release; returns all objects of the workload, as last observed or written."""
        if not claimed.to_adopt and not claimed.to_release:
            return claimed.owned
        if claimed.to_adopt:
            await self._check_can_adopt(owner)
        adopted, _ = await asyncio.gather(
            asyncio.gather(
                *(self._adopt(owner, obj, resource, writes) for obj in claimed.to_adopt)
            ),
            asyncio.gather(
                *(self._release(owner, obj, resource, writes) for obj in claimed.to_release)
            ),
        )
        return claimed.owned + [obj for obj in adopted if obj is not None]

    async def _check_can_adopt(self, owner: Metadata) -> None:
        """Checked on the server, not in a cache: the workload's dependents may be being
        orphaned."""
        found = await self._client.get(self._owners, owner.name, owner.namespace)
        named = f"{self._owners.kind} {owner.namespace}/{owner.name}"
        if found.metadata.uid != owner.uid:
            raise AdoptionRefused(f"{named} was replaced by another object of the same name")
        if found.metadata.deletion_timestamp is not None:
            raise AdoptionRefused(f"{named} is being deleted")

    async def _adopt(
        self, owner: Metadata, obj: T, resource: Resource[T], writes: Expectations[T]
    ) -> T | None:
        reference = build_controller_reference(self._owners, owner)
        return await self._patch(obj, reference, resource, writes)

    async def _release(
        self, owner: Metadata, obj: T, resource: Resource[T], writes: Expectations[T]
    ) -> T | None:
        try:
            return await self._patch(obj, {"$patch": "delete", "uid": owner.uid}, resource, writes)
        except Invalid:
            return None  # released by another client: there is nothing to remove

    async def _patch(
        self, obj: T, reference: JsonObject, resource: Resource[T], writes: Expectations[T]
    ) -> T | None:
        metadata = obj.metadata
        body = {"metadata": {"uid": metadata.uid, "ownerReferences": [reference]}}
        try:
            changed = await self._client.patch(
                resource, metadata.name, body, metadata.namespace, patch_type=PatchType.STRATEGIC
            )
        except NotFound:
            return None
        await writes.wait_for_version(changed.metadata.resource_version)
        return changed
