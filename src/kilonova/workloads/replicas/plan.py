"""What to write, and how wanted objects turn into it. Pure.

What is in the way of something (an object of that name that is going, or is another's) is waited
for: its departure is an event.
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
from kilonova.workloads.replicas.changes import child_patch, own_patch
from kilonova.workloads.replicas.observed import is_going
from kilonova.workloads.resources import CLIQUES, GANGS, GROUPS, Child


@dataclass(frozen=True, slots=True)
class Create:
    """An object that should be there."""

    resource: Resource[Any]
    body: JsonObject

    @property
    def name(self) -> str:
        return self.body["metadata"]["name"]


@dataclass(frozen=True, slots=True)
class Patch:
    """An object that should be otherwise."""

    resource: Resource[Any]
    metadata: Metadata
    body: JsonObject
    after: tuple[str, ...] = ()
    """Names of others of its kind that must be changed before."""
    broken: datetime | None = None
    """Since when it has told why others are changed too: the longer, the later it is changed."""

    @property
    def name(self) -> str:
        return self.metadata.name


@dataclass(frozen=True, slots=True)
class Delete:
    """An object that should not be there."""

    resource: Resource[Any]
    metadata: Metadata

    @property
    def name(self) -> str:
        return self.metadata.name


Write = Create | Patch | Delete


@dataclass(slots=True)
class Plan:
    """What to write now. But for `waves`, nothing of it needs the rest."""

    owners: frozenset[str]
    """Uids of what objects of this replica belong to."""
    creates: list[Create] = field(default_factory=list[Create])
    patches: list[Patch] = field(default_factory=list[Patch])
    deletes: list[Delete] = field(default_factory=list[Delete])
    claim_templates: frozenset[Key] = frozenset()
    """ResourceClaimTemplates without which claims can not be made."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to write."""
        return not (self.creates or self.patches or self.deletes)

    @property
    def first_creates(self) -> list[Create]:
        """What is made first: gangs and groups; then cliques, for which they are; then the rest."""
        founding = [each for each in self.creates if each.resource in (GANGS, GROUPS)]
        return founding or sorted(self.creates, key=lambda each: each.resource is not CLIQUES)

    @property
    def waves(self) -> Iterator[list[Patch]]:
        """The patches, in the order of startup.

        Pods that are made anew must not take the old pods of what they wait for for new ones.
        What is broken comes last, and what is so the longest last of all: whatever a crash leaves
        undone is then still told of. There are too few pods of it to be taken for new ones.
        """
        times = {each.broken for each in self.patches if each.broken is not None}
        for part in (None, *sorted(times, reverse=True)):
            left = [each for each in self.patches if each.broken == part]
            while left:
                waiting = {each.name for each in left}
                wave = [each for each in left if waiting.isdisjoint(each.after)] or left
                yield wave
                left = [each for each in left if each not in wave]

    def keep(
        self,
        resource: Resource[Any],
        live: Mapping[str, Child],
        wanted: Sequence[JsonObject],
        *,
        spec_is_fixed: bool = False,
    ) -> None:
        """Objects of which the server and others hold parts too."""
        for body in wanted:
            present = live.get(body["metadata"]["name"])
            if present is None:
                self.creates.append(Create(resource, body))
            elif self.may_patch(present.metadata):
                patch = child_patch(present, body, spec_is_fixed=spec_is_fixed)
                self._patch(resource, present.metadata, patch)

    def keep_own(
        self,
        resource: Resource[Any],
        live: Mapping[str, PodGang] | Mapping[str, PodCliqueScalingGroup],
        wanted: Sequence[JsonObject],
        *,
        others: tuple[str, ...],
    ) -> None:
        """Objects whose specs are all ours, but for the fields of others."""
        for body in wanted:
            present = live.get(body["metadata"]["name"])
            if present is None:
                self.creates.append(Create(resource, body))
            elif self.may_patch(present.metadata):
                self._patch(resource, present.metadata, own_patch(present, body, others=others))

    def change_clique(
        self, live: PodClique, wanted: JsonObject, *, broken: datetime | None = None
    ) -> None:
        """A clique that is there; how many pods it has is not ours to say."""
        body = own_patch(live, wanted, others=("replicas",))
        self._patch(CLIQUES, live.metadata, body, live.spec.starts_after, broken=broken)

    def remove(
        self,
        resource: Resource[Any],
        live: Mapping[str, Child] | Mapping[str, PodClique] | Mapping[str, PodGang],
        wanted: set[str],
    ) -> None:
        """Delete what is this replica's and is not among those wanted."""
        for name, present in live.items():
            metadata = present.metadata
            controller = metadata.controller
            if name in wanted or is_going(metadata) or controller is None:
                continue
            if controller.uid in self.owners:
                self.deletes.append(Delete(resource, metadata))

    def may_patch(self, metadata: Metadata) -> bool:
        """Whether it is this set's, or nobody's, which becomes ours; not if it is another's."""
        controller = metadata.controller
        is_ours = controller is None or controller.uid in self.owners
        return is_ours and not is_going(metadata)

    def _patch(
        self,
        resource: Resource[Any],
        metadata: Metadata,
        body: JsonObject | None,
        after: tuple[str, ...] = (),
        *,
        broken: datetime | None = None,
    ) -> None:
        if body is not None:
            self.patches.append(Patch(resource, metadata, body, after, broken))


def names_of(objects: Sequence[JsonObject]) -> set[str]:
    """The names of objects that should be there."""
    return {each["metadata"]["name"] for each in objects}
