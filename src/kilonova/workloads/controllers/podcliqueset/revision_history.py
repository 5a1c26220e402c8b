"""Stores the revisions of sets as ControllerRevisions, and deletes old ones that are not in use."""

import asyncio

from kilonova.api.grove import PodCliqueSet, names
from kilonova.kube import Client
from kilonova.kube.controllers.controller_revisions import (
    ControllerRevision,
    ControllerRevisionWriter,
)
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.slow_start import raise_first_failure
from kilonova.kube.owner_references import is_controlled_by
from kilonova.workloads.caches import BY_SET, Caches
from kilonova.workloads.revisions import (
    SetRevision,
    build_controller_revision,
    resolve_current_revision,
    select_revisions_to_delete,
)


class RevisionHistory:
    """ControllerRevisions of sets; each write waits until the cache shows it."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self._caches = caches
        self._writer = ControllerRevisionWriter(client, Expectations(caches.revisions))

    async def ensure_current_revision(self, set_: PodCliqueSet) -> SetRevision:
        """Make the current templates of the set its newest revision."""
        known = self.list_revisions(set_)
        revision = resolve_current_revision(set_, known)
        present = next((each for each in known if each.metadata.name == revision.name), None)
        if present is None:
            body = build_controller_revision(set_, revision)
            await self._writer.create(body, set_.metadata.namespace)
        elif present.revision != revision.number:
            await self._writer.renumber(present, revision.number)
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
        results = await asyncio.gather(*map(self._writer.delete, unused), return_exceptions=True)
        raise_first_failure(results)

    def list_revisions(self, set_: PodCliqueSet) -> list[ControllerRevision]:
        """The revisions owned by this set, not by an earlier set of the same name."""
        key = (set_.metadata.namespace, set_.metadata.name)
        return [
            each
            for each in self._caches.revisions.store.by_index(BY_SET, key)
            if is_controlled_by(each.metadata, set_.metadata)
        ]
