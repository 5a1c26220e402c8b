"""The ownership graph of objects by uid, from their metadata. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

import msgspec

FOREGROUND_FINALIZER = "foregroundDeletion"
ORPHAN_FINALIZER = "orphan"


class OwnerReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """All fields, so that the other references can be written back when one is removed."""

    uid: str
    kind: str
    name: str
    api_version: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]


class Metadata(msgspec.Struct, rename="camel"):
    """The metadata that garbage collection uses."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str | None = None

    def has_same_ownership(self, other: Metadata) -> bool:
        """Whether no field that garbage collection uses differs."""
        return (
            self.owner_references == other.owner_references
            and self.finalizers == other.finalizers
            and self.deletion_timestamp == other.deletion_timestamp
        )


class OwnedObject(msgspec.Struct):
    metadata: Metadata


class GraphTask(Enum):
    """What to do with an object."""

    NOTHING = "nothing"
    CHECK_OWNERS = "check owners"
    ORPHAN_DEPENDENTS = "orphan dependents"
    DELETE_DEPENDENTS = "delete dependents"


@dataclass(slots=True)
class GraphNode:
    """An object in the graph; `resource` is its collection (`deployments.apps`)."""

    resource: str
    metadata: Metadata

    @property
    def task(self) -> GraphTask:
        metadata = self.metadata
        if metadata.deletion_timestamp:
            if ORPHAN_FINALIZER in metadata.finalizers:
                return GraphTask.ORPHAN_DEPENDENTS
            if FOREGROUND_FINALIZER in metadata.finalizers:
                return GraphTask.DELETE_DEPENDENTS
            return GraphTask.NOTHING
        return GraphTask.CHECK_OWNERS if metadata.owner_references else GraphTask.NOTHING


@dataclass(slots=True)
class OwnershipGraph:
    """Objects and their dependents.

    `observe` and `forget` return the uids of the objects to process again.
    """

    nodes: dict[str, GraphNode] = field(default_factory=dict[str, GraphNode])
    _dependents: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    _absent: set[str] = field(default_factory=set[str])

    def observe(self, resource: str, metadata: Metadata) -> set[str]:
        """An object was added or changed."""
        uid = metadata.uid
        before = self.nodes.get(uid)
        old_owners = (
            {owner.uid for owner in before.metadata.owner_references} if before else set[str]()
        )
        new_owners = {owner.uid for owner in metadata.owner_references}
        for owner in old_owners - new_owners:
            self._remove_dependent(owner, uid)
        for owner in new_owners - old_owners:
            self._dependents.setdefault(owner, set()).add(uid)
        node = self.nodes[uid] = GraphNode(resource, metadata)
        self._absent.discard(uid)
        affected: set[str] = set()
        if before is not None and before.metadata.has_same_ownership(metadata):
            return affected
        if node.task is not GraphTask.NOTHING:
            affected.add(uid)
        blocked = {
            owner.uid
            for owner in (
                *metadata.owner_references,
                *(before.metadata.owner_references if before else ()),
            )
        }
        affected |= self._select_waiting_owners(blocked)
        return affected

    def forget(self, uid: str, *, absent: bool = True) -> set[str]:
        """An object was deleted: its dependents have lost an owner, its owners a dependent.

        Without `absent` it is only no longer watched: whether it exists has to be looked up.
        """
        node = self.nodes.pop(uid, None)
        affected = set(self._dependents.get(uid, ()))
        if absent and affected:
            self._absent.add(uid)
        if node is not None:
            owners = {owner.uid for owner in node.metadata.owner_references}
            for owner in owners:
                self._remove_dependent(owner, uid)
            affected |= self._select_waiting_owners(owners)
        return affected & self.nodes.keys()

    def is_absent(self, uid: str) -> bool:
        """Whether the object's deletion was observed; remembered while it is named as an owner."""
        return uid in self._absent

    def dependents(self, uid: str) -> list[GraphNode]:
        """The known objects that name `uid` as an owner."""
        return [self.nodes[other] for other in self._dependents.get(uid, ()) if other in self.nodes]

    def blocking_dependents(self, uid: str) -> list[GraphNode]:
        """Dependents that must be deleted before a foreground deletion of `uid` ends."""
        return [
            node
            for node in self.dependents(uid)
            if node.metadata.uid != uid
            and any(
                owner.uid == uid and owner.block_owner_deletion
                for owner in node.metadata.owner_references
            )
        ]

    def owned_by_kind(self, group: str, kind: str) -> set[str]:
        """The objects that name an owner of a kind. Scans all objects."""
        return {
            uid
            for uid, node in self.nodes.items()
            if any((o.group, o.kind) == (group, kind) for o in node.metadata.owner_references)
        }

    def is_deleting_dependents(self, uid: str) -> bool:
        node = self.nodes.get(uid)
        return node is not None and node.task is GraphTask.DELETE_DEPENDENTS

    def _select_waiting_owners(self, uids: Iterable[str]) -> set[str]:
        return {
            uid
            for uid in uids
            if uid in self.nodes
            and self.nodes[uid].task in (GraphTask.DELETE_DEPENDENTS, GraphTask.ORPHAN_DEPENDENTS)
        }

    def _remove_dependent(self, owner: str, uid: str) -> None:
        dependents = self._dependents.get(owner)
        if dependents is not None:
            dependents.discard(uid)
            if not dependents:
                del self._dependents[owner]
                self._absent.discard(owner)
