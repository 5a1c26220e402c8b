"""Stores the revisions of sets as ControllerRevisions, and deletes old ones that are not in use."""

import asyncio

from kilonova.api.grove import PodCliqueSet, names
from kilonova.kube import AlreadyExists, Client, Conflict, NotFound
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.slow_start import raise_first_failure
from kilonova.workloads.caches import BY_SET, Caches
from kilonova.workloads.resources import CONTROLLER_REVISIONS, ControllerRevision
from kilonova.workloads.revisions import (
    SetRevision,
    build_controller_revision,
    resolve_current_revision,
    select_revisions_to_delete,
)


class RevisionHistory:
    """ControllerRevisions of sets; each write waits until the cache shows it."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._client = client
        self._caches = caches
        self._expectations = Expectations(caches.revisions)

    async def ensure_current_revision(self, set_: PodCliqueSet) -> SetRevision:
        """Make the current templates of the set its newest revision."""
        known = self.list_revisions(set_)
        revision = resolve_current_revision(set_, known)
        present = next((each for each in known if each.metadata.name == revision.name), None)
        if present is None:
            await self._create(set_, revision)
        elif present.revision != revision.number:
            await self._renumber(present, revision.number)
        return revision

    async def delete_old_revisions(self, set_: PodCliqueSet) -> None:
        """Delete old revisions that no object of the set is made from."""
        key = (set_.metadata.namespace, set_.metadata.name)
        unused = select_revisions_to_delete(self.list_revisions(set_), used_hashes=())
        if not unused:
            return
        children = (
            *self._caches.cliques.store.by_index(BY_SET, key),
            *self._caches.groups.store.by_index(BY_SET, key),
        )
        used = {each.metadata.labels.get(names.GENERATION_HASH, "") for each in children}
        unused = select_revisions_to_delete(self.list_revisions(set_), used)
        results = await asyncio.gather(*map(self._delete, unused), return_exceptions=True)
        raise_first_failure(results)

    def list_revisions(self, set_: PodCliqueSet) -> list[ControllerRevision]:
        """The revisions owned by this set, not by an earlier set of the same name."""
        key = (set_.metadata.namespace, set_.metadata.name)
        return [
            each
            for each in self._caches.revisions.store.by_index(BY_SET, key)
            if each.metadata.controller is not None
            and each.metadata.controller.uid == set_.metadata.uid
        ]

    async def _create(self, set_: PodCliqueSet, revision: SetRevision) -> None:
        body, namespace = build_controller_revision(set_, revision), set_.metadata.namespace
        try:
            created = await self._client.create(CONTROLLER_REVISIONS, body, namespace)
        except AlreadyExists:
            # Left by an earlier set of this name with the same templates.
            leftover = await self._client.get(CONTROLLER_REVISIONS, revision.name, namespace)
            await self._delete(leftover)
            created = await self._client.create(CONTROLLER_REVISIONS, body, namespace)
        await self._expectations.wait_for_version(created.metadata.resource_version)

    async def _renumber(self, revision: ControllerRevision, number: int) -> None:
        known = revision.metadata
        body = {"metadata": {"uid": known.uid}, "revision": number}
        changed = await self._client.patch(CONTROLLER_REVISIONS, known.name, body, known.namespace)
        await self._expectations.wait_for_version(changed.metadata.resource_version)

    async def _delete(self, revision: ControllerRevision) -> None:
        known = revision.metadata
        try:
            await self._client.delete(
                CONTROLLER_REVISIONS, known.name, known.namespace, uid=known.uid
            )
        except (NotFound, Conflict):
            return
        await self._expectations.wait_for_deletion((known.namespace, known.name), known.uid)
