"""ControllerRevisions: the numbered templates of StatefulSets and DaemonSets.

The data of a revision is a strategic merge patch that restores the template: `kubectl rollout undo`
applies it unchanged.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import AlreadyExists, Client, NotFound, Reflector, Resource
from kilonova.kube.controllers.expectations import Expectations
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.controllers.apps.controller_refs import (
    ControllerRefManager,
    build_controller_reference,
    match_controlled_objects,
)
from kilonova.local.controllers.apps.objects import REVISIONS, ControllerRevision, WorkloadObject
from kilonova.local.controllers.apps.selector_index import first_match_label
from kilonova.local.controllers.apps.templates import compute_data_hash, is_same_template
from kilonova.local.controllers.shared.indexes import (
    BY_CONTROLLER,
    index_by_controller,
    orphan_index_key,
)
from kilonova.local.objects.indexes import add_index_once

_MAX_PREFIX_LENGTH = 223


def build_revision_data(template: JsonObject) -> JsonObject:
    """The data of a revision for a template."""
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def extract_template(revision: ControllerRevision) -> JsonObject:
    """The template in a revision."""
    found = nested_object(revision.data or {}, "spec", "template")
    return {name: value for name, value in found.items() if name != "$patch"}


@dataclass(frozen=True, slots=True)
class RevisionMatch:
    """The revision of a template, if it exists, the number it should have, and all others."""

    current: ControllerRevision | None
    number: int
    others: tuple[ControllerRevision, ...]


def match_revision(revisions: Iterable[ControllerRevision], template: JsonObject) -> RevisionMatch:
    """Find the revision of a template: the newest that contains it. Its number is the highest."""
    ordered = sorted(revisions, key=revision_order)
    same = [each for each in ordered if is_same_template(extract_template(each), template)]
    present = same[-1] if same else None
    others = tuple(each for each in ordered if each is not present)
    number = max((each.revision for each in others if each not in same), default=0) + 1
    return RevisionMatch(present, max(number, present.revision if present else 0), others)


def revision_order(revision: ControllerRevision) -> tuple[int, str, str]:
    """Sorts the oldest first."""
    metadata = revision.metadata
    return revision.revision, metadata.creation_timestamp, metadata.name


@dataclass(frozen=True, slots=True)
class OwnedRevisions:
    """A workload's revisions: the one of its template, and the others, the oldest first."""

    current: ControllerRevision
    others: tuple[ControllerRevision, ...]
    collisions: int


class RevisionHistory:
    """Maintains the revisions of one kind of workload. `label` holds the hash of a revision."""

    def __init__(
        self,
        client: Client,
        owners: Resource[Any],
        revisions: Reflector[ControllerRevision],
        label: str,
    ) -> None:
        self._client = client
        self._owners = owners
        self._revisions = revisions
        self._label = label
        self._claimer = ControllerRefManager(client, owners)
        self._writes = Expectations(revisions)
        add_index_once(revisions.store, BY_CONTROLLER, index_by_controller)

    async def sync_revisions(
        self, owner: WorkloadObject, template: JsonObject, collisions: int
    ) -> OwnedRevisions:
        """Claim a workload's revisions, and make the one of its template the newest."""
        metadata, store = owner.metadata, self._revisions.store
        owned = store.by_index(BY_CONTROLLER, metadata.uid)
        free = store.by_index(
            BY_CONTROLLER, orphan_index_key(metadata.namespace, first_match_label(owner))
        )
        matches = owner.selector.matches
        found = match_controlled_objects(
            metadata, [*owned, *free], lambda each: matches(each.metadata.labels)
        )
        claimed = await self._claimer.adopt_and_release(metadata, found, REVISIONS, self._writes)
        match = match_revision(claimed, template)
        if match.current is None:
            made, collisions = await self._create(metadata, template, match.number, collisions)
            return OwnedRevisions(made, match.others, collisions)
        present = match.current
        if present.revision != match.number:
            present = await self._renumber(present, match.number)
        return OwnedRevisions(present, match.others, collisions)

    async def delete_revisions(self, revisions: Sequence[ControllerRevision]) -> None:
        """Delete revisions that are no longer needed."""
        for metadata in (each.metadata for each in revisions):
            try:
                await self._client.delete(
                    REVISIONS, metadata.name, metadata.namespace, uid=metadata.uid
                )
            except NotFound:
                continue
            await self._writes.wait_for_deletion((metadata.namespace, metadata.name), metadata.uid)

    async def _create(
        self, owner: Metadata, template: JsonObject, number: int, collisions: int
    ) -> tuple[ControllerRevision, int]:
        data = build_revision_data(template)
        while True:
            hash_ = compute_data_hash(data, collisions)
            name = f"{owner.name[:_MAX_PREFIX_LENGTH]}-{hash_}"
            body = {
                "metadata": {
                    "name": name,
                    "labels": {**nested_object(template, "metadata", "labels"), self._label: hash_},
                    "annotations": owner.annotations,
                    "ownerReferences": [build_controller_reference(self._owners, owner)],
                },
                "data": data,
                "revision": number,
            }
            try:
                made = await self._client.create(REVISIONS, body, owner.namespace)
            except AlreadyExists:
                made = await self._client.get(REVISIONS, name, owner.namespace)
                if not is_same_template(extract_template(made), template):
                    collisions += 1
                    continue
            await self._writes.wait_for_version(made.metadata.resource_version)
            return made, collisions

    async def _renumber(self, revision: ControllerRevision, number: int) -> ControllerRevision:
        metadata = revision.metadata
        body = {"metadata": {"uid": metadata.uid}, "revision": number}
        changed = await self._client.patch(REVISIONS, metadata.name, body, metadata.namespace)
        await self._writes.wait_for_version(changed.metadata.resource_version)
        return changed
