"""The writes of a reconcile, derived from desired objects. Pure.

A conflicting object of the same name (being deleted, or owned by another) is waited for: its
deletion is an event.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kilonova.api.grove import PodClique, PodCliqueScalingGroup
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.podgang import PodGang
from kilonova.kube import Key, Resource
from kilonova.workloads.controllers.podcliqueset_replica.observed import is_being_deleted
from kilonova.workloads.controllers.podcliqueset_replica.patches import (
    build_child_patch,
    build_owned_patch,
)
from kilonova.workloads.resources import CLIQUES, GANGS, SCALING_GROUPS, ChildObject


@dataclass(frozen=True, slots=True)
class Create:
    """An object to create."""

    resource: Resource[Any]
    body: JsonObject

    @property
    def name(self) -> str:
        return self.body["metadata"]["name"]


@dataclass(frozen=True, slots=True)
class Patch:
    """An object to patch."""

    resource: Resource[Any]
    metadata: Metadata
    body: JsonObject
    after: tuple[str, ...] = ()
    """Names of objects of the same kind that must be patched before."""
    breached_since: datetime | None = None
    """Since when it has been breached, if it is restarted: the longer, the later it is patched."""

    @property
    def name(self) -> str:
        return self.metadata.name


@dataclass(frozen=True, slots=True)
class Delete:
    """An object to delete."""

    resource: Resource[Any]
    metadata: Metadata

    @property
    def name(self) -> str:
        return self.metadata.name


Write = Create | Patch | Delete


@dataclass(slots=True)
class WritePlan:
    """The writes of one pass. Except for `patch_waves` their order does not matter."""

    owner_uids: frozenset[str]
    """Uids of the owners of this replica's objects."""
    creates: list[Create] = field(default_factory=list[Create])
    patches: list[Patch] = field(default_factory=list[Patch])
    deletes: list[Delete] = field(default_factory=list[Delete])
    claim_templates: frozenset[Key] = frozenset()
    """ResourceClaimTemplates that are missing to build claims."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to write."""
        return not (self.creates or self.patches or self.deletes)

    @property
    def next_creates(self) -> list[Create]:
        """What is created first: gangs and groups; then cliques, which need them, then the rest."""
        first = [each for each in self.creates if each.resource in (GANGS, SCALING_GROUPS)]
        return first or sorted(self.creates, key=lambda each: each.resource is not CLIQUES)

    @property
    def patch_waves(self) -> Iterator[list[Patch]]:
        """The patches in startup order.

        Restarted pods must not mistake old pods of their startup dependencies for new ones.
        Breached cliques come last, the longest breached last of all: after a crash the remaining
        ones still show the breach. They have too few pods to be mistaken for restarted ones.
        """
        times = {each.breached_since for each in self.patches if each.breached_since is not None}
        for since in (None, *sorted(times, reverse=True)):
            remaining = [each for each in self.patches if each.breached_since == since]
            while remaining:
                waiting = {each.name for each in remaining}
                wave = [each for each in remaining if waiting.isdisjoint(each.after)] or remaining
                yield wave
                remaining = [each for each in remaining if each not in wave]

    def ensure_children(
        self,
        resource: Resource[Any],
        live: Mapping[str, ChildObject],
        wanted: Sequence[JsonObject],
        *,
        spec_is_immutable: bool = False,
    ) -> None:
        """Plan objects of which the API server and others own fields too."""
        for body in wanted:
            present = live.get(body["metadata"]["name"])
            if present is None:
                self.creates.append(Create(resource, body))
            elif self.can_patch(present.metadata):
                patch = build_child_patch(present, body, spec_is_immutable=spec_is_immutable)
                self._add_patch(resource, present.metadata, patch)

    def ensure_owned(
        self,
        resource: Resource[Any],
        live: Mapping[str, PodGang] | Mapping[str, PodCliqueScalingGroup],
        wanted: Sequence[JsonObject],
        *,
        foreign_fields: tuple[str, ...],
    ) -> None:
        """Plan objects whose specs the operator owns, except `foreign_fields`."""
        for body in wanted:
            present = live.get(body["metadata"]["name"])
            if present is None:
                self.creates.append(Create(resource, body))
            elif self.can_patch(present.metadata):
                self._add_patch(
                    resource,
                    present.metadata,
                    build_owned_patch(present, body, foreign_fields=foreign_fields),
                )

    def patch_clique(
        self, live: PodClique, wanted: JsonObject, *, breached_since: datetime | None = None
    ) -> None:
        """Plan the patch of an existing clique; its replicas are not changed."""
        body = build_owned_patch(live, wanted, foreign_fields=("replicas",))
        self._add_patch(
            CLIQUES, live.metadata, body, live.spec.starts_after, breached_since=breached_since
        )

    def delete_unwanted(
        self,
        resource: Resource[Any],
        live: Mapping[str, ChildObject] | Mapping[str, PodClique] | Mapping[str, PodGang],
        wanted: set[str],
    ) -> None:
        """Delete objects of this replica that are not desired."""
        for name, present in live.items():
            metadata = present.metadata
            controller = metadata.controller
            if name in wanted or is_being_deleted(metadata) or controller is None:
                continue
            if controller.uid in self.owner_uids:
                self.deletes.append(Delete(resource, metadata))

    def can_patch(self, metadata: Metadata) -> bool:
        """Whether the object is owned by this set, or by none, and is adopted then."""
        controller = metadata.controller
        is_owned = controller is None or controller.uid in self.owner_uids
        return is_owned and not is_being_deleted(metadata)

    def _add_patch(
        self,
        resource: Resource[Any],
        metadata: Metadata,
        body: JsonObject | None,
        after: tuple[str, ...] = (),
        *,
        breached_since: datetime | None = None,
    ) -> None:
        if body is not None:
            self.patches.append(Patch(resource, metadata, body, after, breached_since))


def list_names(objects: Sequence[JsonObject]) -> set[str]:
    """The names of desired objects."""
    return {each["metadata"]["name"] for each in objects}
