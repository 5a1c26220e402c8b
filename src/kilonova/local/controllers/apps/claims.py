"""Claiming: a set adopts what its selector finds and nobody controls, and releases the rest."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Client, Invalid, KubeError, NotFound, PatchKind, Resource
from kilonova.kube.echo import Echo
from kilonova.local.controllers.apps.objects import PodSet


class Owned(Protocol):
    """An object that may have a controller."""

    metadata: Metadata


T = TypeVar("T", bound=Owned)


class NotAdopting(KubeError):
    """The set is gone, or going, as the server has it."""


@dataclass(frozen=True, slots=True)
class Claim(Generic[T]):
    """What a set keeps, what it is to adopt, and what to release."""

    kept: list[T]
    adopted: list[T]
    released: list[T]


def claim(owner: Metadata, candidates: Iterable[T], matches: Callable[[T], bool]) -> Claim[T]:
    """Judge what a set controls and what nobody controls; what others control is left alone.

    A set that is being deleted changes nothing any more.
    """
    found: Claim[T] = Claim([], [], [])
    for obj in candidates:
        controller = obj.metadata.controller
        if controller is not None:
            if controller.uid != owner.uid:
                continue
            if matches(obj):
                found.kept.append(obj)
            elif owner.deletion_timestamp is None:
                found.released.append(obj)
        elif (
            owner.deletion_timestamp is None
            and obj.metadata.deletion_timestamp is None
            and obj.metadata.namespace == owner.namespace
            and matches(obj)
        ):
            found.adopted.append(obj)
    return found


def controller_reference(resource: Resource[Any], owner: Metadata) -> JsonObject:
    """The reference that makes an object one of the owner's."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


class Claimer:
    """Carries out claims of one kind of set, and waits until the caches show them."""

    def __init__(self, client: Client, owners: Resource[Any]) -> None:
        self._client = client
        self._owners = owners.as_type(PodSet)

    async def settle(
        self, owner: Metadata, found: Claim[T], resource: Resource[T], echo: Echo[T]
    ) -> list[T]:
        """Adopt and release; returns all that the set has now, as last seen or written."""
        if not found.adopted and not found.released:
            return found.kept
        if found.adopted:
            await self._still_there(owner)
        adopted, _ = await asyncio.gather(
            asyncio.gather(*(self._adopt(owner, obj, resource, echo) for obj in found.adopted)),
            asyncio.gather(*(self._release(owner, obj, resource, echo) for obj in found.released)),
        )
        return found.kept + [obj for obj in adopted if obj is not None]

    async def _still_there(self, owner: Metadata) -> None:
        """Nothing is adopted on the word of a cache: the set may be being orphaned."""
        found = await self._client.get(self._owners, owner.name, owner.namespace)
        named = f"{self._owners.kind} {owner.namespace}/{owner.name}"
        if found.metadata.uid != owner.uid:
            raise NotAdopting(f"{named} is another one now")
        if found.metadata.deletion_timestamp is not None:
            raise NotAdopting(f"{named} is being deleted")

    async def _adopt(
        self, owner: Metadata, obj: T, resource: Resource[T], echo: Echo[T]
    ) -> T | None:
        reference = controller_reference(self._owners, owner)
        return await self._patch(obj, reference, resource, echo)

    async def _release(
        self, owner: Metadata, obj: T, resource: Resource[T], echo: Echo[T]
    ) -> T | None:
        try:
            return await self._patch(obj, {"$patch": "delete", "uid": owner.uid}, resource, echo)
        except Invalid:
            return None  # somebody else released it: there is nothing to delete

    async def _patch(
        self, obj: T, reference: JsonObject, resource: Resource[T], echo: Echo[T]
    ) -> T | None:
        known = obj.metadata
        body = {"metadata": {"uid": known.uid, "ownerReferences": [reference]}}
        try:
            changed = await self._client.patch(
                resource, known.name, body, known.namespace, kind=PatchKind.STRATEGIC
            )
        except NotFound:
            return None
        await echo.of_version(changed.metadata.resource_version)
        return changed
