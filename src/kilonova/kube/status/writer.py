"""Writes statuses: only to the object that was observed, and only what differs.

Every write carries the uid of the observed object: if another object has its name by now, the API
server answers with a conflict.
"""

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube.client.client import Client
from kilonova.kube.client.errors import NotFound
from kilonova.kube.client.resource import Resource
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.status.patch import build_status_patch


class ObjectWithStatus(Protocol):
    """An object of the API whose status is a Struct."""

    @property
    def metadata(self) -> Metadata: ...
    @property
    def status(self) -> msgspec.Struct: ...


T = TypeVar("T")
ObjectT = TypeVar("ObjectT", bound=ObjectWithStatus)


@dataclass(frozen=True, slots=True)
class StatusWriter(Generic[ObjectT]):
    """Writes the statuses of one kind, and waits until its cache shows them."""

    client: Client
    resource: Resource[ObjectT]
    expectations: Expectations[ObjectT]

    async def write(self, obj: ObjectT, status: msgspec.Struct) -> ObjectT | None:
        """Write what differs from the object's status, and return the object as written.

        It is `obj` itself if nothing differs, and None if the object does not exist any more.
        """
        patch = build_status_patch(obj.status, status)
        if patch is None:
            return obj
        written = await patch_status(self.client, self.resource, obj.metadata, patch)
        if written is not None:
            await self.expectations.wait_for_version(written.metadata.resource_version)
        return written


async def patch_status(
    client: Client,
    resource: Resource[T],
    metadata: Metadata,
    status: JsonObject,
    *,
    require_version: bool = False,
) -> T | None:
    """Merge fields into a status; None if the object does not exist any more.

    With `require_version` also a change of the object since it was observed is a conflict: for
    statuses with several writers.
    """
    body = _build_body(metadata, status, require_version=require_version)
    try:
        return await client.patch(
            resource, metadata.name, body, metadata.namespace, subresource="status"
        )
    except NotFound:
        return None


async def apply_status(
    client: Client,
    resource: Resource[T],
    metadata: Metadata,
    status: JsonObject,
    *,
    require_version: bool = False,
    field_manager: str | None = None,
) -> T | None:
    """Apply the fields of a status that this client owns, as `patch_status` merges them. Fields
    that it applied before, and does not apply again, are removed. Parts of one client that own
    different fields have a `field_manager` each."""
    body = _build_body(metadata, status, require_version=require_version)
    try:
        return await client.apply(
            resource,
            metadata.name,
            body,
            metadata.namespace,
            subresource="status",
            field_manager=field_manager,
        )
    except NotFound:
        return None


def _build_body(metadata: Metadata, status: JsonObject, *, require_version: bool) -> JsonObject:
    precondition = {"uid": metadata.uid}
    if require_version:
        precondition["resourceVersion"] = metadata.resource_version
    return {"metadata": precondition, "status": status}
