"""Keeps the revisions of sets: the newest is what a set is, old ones go when nobody needs them."""

import asyncio

from kilonova.api.grove import PodCliqueSet, names
from kilonova.kube import AlreadyExists, Client, Conflict, NotFound
from kilonova.kube.batches import raise_first
from kilonova.kube.echo import Echo
from kilonova.workloads.caches import BY_SET, Caches
from kilonova.workloads.resources import REVISIONS, Revision
from kilonova.workloads.revisions import (
    SetRevision,
    current_revision,
    revision_object,
    spent_revisions,
)


class History:
    """Revisions as they are in the API; each round ends when the cache shows what was written."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._echo = Echo(caches.revisions)

    async def keep(self, set_: PodCliqueSet) -> SetRevision:
        """See to it that the set as it is now is its newest revision."""
        known = self.of_set(set_)
        revision = current_revision(set_, known)
        present = next((each for each in known if each.metadata.name == revision.name), None)
        if present is None:
            await self._create(set_, revision)
        elif present.revision != revision.number:
            await self._renumber(present, revision.number)
        return revision

    async def prune(self, set_: PodCliqueSet) -> None:
        """Delete old revisions that nothing of the set is made from."""
        key = (set_.metadata.namespace, set_.metadata.name)
        spent = spent_revisions(self.of_set(set_), used=())
        if not spent:
            return
        children = (
            *self._caches.cliques.store.find(BY_SET, key),
            *self._caches.groups.store.find(BY_SET, key),
        )
        used = {each.metadata.labels.get(names.GENERATION_HASH, "") for each in children}
        spent = spent_revisions(self.of_set(set_), used)
        results = await asyncio.gather(*map(self._delete, spent), return_exceptions=True)
        raise_first(results)

    def of_set(self, set_: PodCliqueSet) -> list[Revision]:
        """The revisions of this very set, not of one that had its name before."""
        key = (set_.metadata.namespace, set_.metadata.name)
        return [
            each
            for each in self._caches.revisions.store.find(BY_SET, key)
            if each.metadata.controller is not None
            and each.metadata.controller.uid == set_.metadata.uid
        ]

    async def _create(self, set_: PodCliqueSet, revision: SetRevision) -> None:
        body, namespace = revision_object(set_, revision), set_.metadata.namespace
        try:
            made = await self._client.create(REVISIONS, body, namespace)
        except AlreadyExists:
            # Of a set that had this name before, and left to nobody: the same templates.
            left = await self._client.get(REVISIONS, revision.name, namespace)
            await self._delete(left)
            made = await self._client.create(REVISIONS, body, namespace)
        await self._echo.of_version(made.metadata.resource_version)

    async def _renumber(self, revision: Revision, number: int) -> None:
        known = revision.metadata
        body = {"metadata": {"uid": known.uid}, "revision": number}
        changed = await self._client.patch(REVISIONS, known.name, body, known.namespace)
        await self._echo.of_version(changed.metadata.resource_version)

    async def _delete(self, revision: Revision) -> None:
        known = revision.metadata
        try:
            await self._client.delete(REVISIONS, known.name, known.namespace, uid=known.uid)
        except (NotFound, Conflict):
            return
        await self._echo.of_deletion((known.namespace, known.name), known.uid)
