"""ControllerRevisions: what an owner was made from before, as DaemonSets keep them."""

from dataclasses import dataclass
from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube.client.client import Client
from kilonova.kube.client.errors import AlreadyExists, Conflict, NotFound
from kilonova.kube.client.resource import Resource
from kilonova.kube.controllers.expectations import Expectations


class ControllerRevision(msgspec.Struct, gc=False):
    """A ControllerRevision: a snapshot of its owner's templates."""

    metadata: Metadata
    revision: int
    data: dict[str, Any] = {}


CONTROLLER_REVISIONS = Resource(
    "apps", "v1", "controllerrevisions", "ControllerRevision", True, ControllerRevision
)


@dataclass(frozen=True, slots=True)
class ControllerRevisionWriter:
    """Writes ControllerRevisions; each write waits until the cache shows it."""

    client: Client
    expectations: Expectations[ControllerRevision]

    async def create(self, body: JsonObject, namespace: str) -> None:
        """Create a revision that the owner does not have."""
        try:
            created = await self.client.create(CONTROLLER_REVISIONS, body, namespace)
        except AlreadyExists:
            # Left by an earlier owner of the same name, or created by a request whose answer was
            # lost.
            name = body["metadata"]["name"]
            await self.delete(await self.client.get(CONTROLLER_REVISIONS, name, namespace))
            created = await self.client.create(CONTROLLER_REVISIONS, body, namespace)
        await self.expectations.wait_for_version(created.metadata.resource_version)

    async def renumber(self, revision: ControllerRevision, number: int) -> None:
        """Give a revision another number: the newest has the greatest."""
        known = revision.metadata
        body = {"metadata": {"uid": known.uid}, "revision": number}
        changed = await self.client.patch(CONTROLLER_REVISIONS, known.name, body, known.namespace)
        await self.expectations.wait_for_version(changed.metadata.resource_version)

    async def delete(self, revision: ControllerRevision) -> None:
        """Delete a revision, unless it is gone."""
        known = revision.metadata
        try:
            await self.client.delete(
                CONTROLLER_REVISIONS, known.name, known.namespace, uid=known.uid
            )
        except (NotFound, Conflict):
            return  # gone, or another one of that name
        await self.expectations.wait_for_deletion((known.namespace, known.name), known.uid)
