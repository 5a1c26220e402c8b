"""ControllerRevisions: the templates that StatefulSets and DaemonSets have had, under numbers.

The data of a revision is a strategic merge patch that puts the template back: `kubectl rollout
undo` applies it as it is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import AlreadyExists, Client, NotFound, Reflector, Resource
from kilonova.kube.echo import Echo
from kilonova.local.controllers.apps.claims import Claimer, claim, controller_reference
from kilonova.local.controllers.apps.objects import REVISIONS, ControllerRevision, PodSet
from kilonova.local.controllers.apps.selection import asked_label
from kilonova.local.controllers.apps.templates import data_hash, same_template
from kilonova.local.controllers.indexes import (
    BY_CONTROLLER,
    add_index_once,
    controller_of,
    orphans,
)
from kilonova.local.kinds.walk import part

_LONGEST_PREFIX = 223


def revision_data(template: JsonObject) -> JsonObject:
    """What a revision holds for a template."""
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def template_of(revision: ControllerRevision) -> JsonObject:
    """The template that a revision holds."""
    found = part(revision.data or {}, "spec", "template")
    return {name: value for name, value in found.items() if name != "$patch"}


@dataclass(frozen=True, slots=True)
class Reckoning:
    """The revision of a template, if there is one, the number it should have, and all others."""

    present: ControllerRevision | None
    number: int
    others: tuple[ControllerRevision, ...]


def reckon(revisions: Iterable[ControllerRevision], template: JsonObject) -> Reckoning:
    """Which revision a template is: the newest that holds it, and newer than those that do not."""
    ordered = sorted(revisions, key=by_number)
    same = [each for each in ordered if same_template(template_of(each), template)]
    present = same[-1] if same else None
    others = tuple(each for each in ordered if each is not present)
    number = max((each.revision for each in others if each not in same), default=0) + 1
    return Reckoning(present, max(number, present.revision if present else 0), others)


def by_number(revision: ControllerRevision) -> tuple[int, str, str]:
    """Sorts the oldest first."""
    known = revision.metadata
    return revision.revision, known.creation_timestamp, known.name


@dataclass(frozen=True, slots=True)
class Revisions:
    """A set's revisions: the one of its template, and the others, the oldest first."""

    present: ControllerRevision
    others: tuple[ControllerRevision, ...]
    collisions: int


class History:
    """Keeps the revisions of one kind of set. `label` is where a revision notes its hash."""

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
        self._claimer = Claimer(client, owners)
        self._echo = Echo(revisions)
        add_index_once(revisions.store, BY_CONTROLLER, controller_of)

    async def keep(self, owner: PodSet, template: JsonObject, collisions: int) -> Revisions:
        """Claim a set's revisions, and see to it that its template is the newest of them."""
        known, store = owner.metadata, self._revisions.store
        owned = store.find(BY_CONTROLLER, known.uid)
        free = store.find(BY_CONTROLLER, orphans(known.namespace, asked_label(owner)))
        matches = owner.selector.matches
        found = claim(known, [*owned, *free], lambda each: matches(each.metadata.labels))
        claimed = await self._claimer.settle(known, found, REVISIONS, self._echo)
        reckoning = reckon(claimed, template)
        if reckoning.present is None:
            made, collisions = await self._create(known, template, reckoning.number, collisions)
            return Revisions(made, reckoning.others, collisions)
        present = reckoning.present
        if present.revision != reckoning.number:
            present = await self._renumber(present, reckoning.number)
        return Revisions(present, reckoning.others, collisions)

    async def forget(self, revisions: Sequence[ControllerRevision]) -> None:
        """Delete revisions that nobody needs any more."""
        for known in (each.metadata for each in revisions):
            try:
                await self._client.delete(REVISIONS, known.name, known.namespace, uid=known.uid)
            except NotFound:
                continue
            await self._echo.of_deletion((known.namespace, known.name), known.uid)

    async def _create(
        self, owner: Metadata, template: JsonObject, number: int, collisions: int
    ) -> tuple[ControllerRevision, int]:
        data = revision_data(template)
        while True:
            hash_ = data_hash(data, collisions)
            name = f"{owner.name[:_LONGEST_PREFIX]}-{hash_}"
            body = {
                "metadata": {
                    "name": name,
                    "labels": {**part(template, "metadata", "labels"), self._label: hash_},
                    "annotations": owner.annotations,
                    "ownerReferences": [controller_reference(self._owners, owner)],
                },
                "data": data,
                "revision": number,
            }
            try:
                made = await self._client.create(REVISIONS, body, owner.namespace)
            except AlreadyExists:
                made = await self._client.get(REVISIONS, name, owner.namespace)
                if not same_template(template_of(made), template):
                    collisions += 1
                    continue
            await self._echo.of_version(made.metadata.resource_version)
            return made, collisions

    async def _renumber(self, revision: ControllerRevision, number: int) -> ControllerRevision:
        known = revision.metadata
        body = {"metadata": {"uid": known.uid}, "revision": number}
        changed = await self._client.patch(REVISIONS, known.name, body, known.namespace)
        await self._echo.of_version(changed.metadata.resource_version)
        return changed
