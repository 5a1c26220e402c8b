"""Who owns whom: a graph of objects by uid, kept from their metadata. Pure; no I/O."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

import msgspec

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class OwnerReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """All that a reference says, so that the rest can be written back when one is removed."""

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
    """What garbage collection knows of any object."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str | None = None

    def concerns_like(self, other: Metadata) -> bool:
        """Whether nothing that garbage collection cares about differs."""
        return (
            self.owner_references == other.owner_references
            and self.finalizers == other.finalizers
            and self.deletion_timestamp == other.deletion_timestamp
        )


class AnyObject(msgspec.Struct):
    metadata: Metadata


class Task(Enum):
    """What an object needs done about it."""

    NOTHING = "nothing"
    CHECK_OWNERS = "check owners"
    ORPHAN_DEPENDENTS = "orphan dependents"
    DELETE_DEPENDENTS = "delete dependents"


@dataclass(slots=True)
class Node:
    """An object in the graph; `resource` is the collection that it is in (`deployments.apps`)."""

    resource: str
    metadata: Metadata

    @property
    def task(self) -> Task:
        metadata = self.metadata
        if metadata.deletion_timestamp:
            if ORPHAN in metadata.finalizers:
                return Task.ORPHAN_DEPENDENTS
            if FOREGROUND in metadata.finalizers:
                return Task.DELETE_DEPENDENTS
            return Task.NOTHING
        return Task.CHECK_OWNERS if metadata.owner_references else Task.NOTHING


@dataclass(slots=True)
class Graph:
    """Objects and their dependents.

    `observe` and `forget` tell whose situation may have changed: the uids to look at again.
    """

    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    _dependents: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    _gone: set[str] = field(default_factory=set[str])

    def observe(self, resource: str, metadata: Metadata) -> set[str]:
        """An object is new or has changed."""
        uid = metadata.uid
        before = self.nodes.get(uid)
        old_owners = (
            {owner.uid for owner in before.metadata.owner_references} if before else set[str]()
        )
        new_owners = {owner.uid for owner in metadata.owner_references}
        for owner in old_owners - new_owners:
            self._unlink(owner, uid)
        for owner in new_owners - old_owners:
            self._dependents.setdefault(owner, set()).add(uid)
        node = self.nodes[uid] = Node(resource, metadata)
        self._gone.discard(uid)
        concerned: set[str] = set()
        if before is not None and before.metadata.concerns_like(metadata):
            return concerned
        if node.task is not Task.NOTHING:
            concerned.add(uid)
        blocked = {
            owner.uid
            for owner in (
                *metadata.owner_references,
                *(before.metadata.owner_references if before else ()),
            )
        }
        concerned |= self._waiting(blocked)
        return concerned

    def forget(self, uid: str, *, gone: bool = True) -> set[str]:
        """An object is gone: its dependents have lost an owner, its owners a dependent.

        Without `gone` it is only out of sight: whether it still exists has to be asked.
        """
        node = self.nodes.pop(uid, None)
        concerned = set(self._dependents.get(uid, ()))
        if gone and concerned:
            self._gone.add(uid)
        if node is not None:
            owners = {owner.uid for owner in node.metadata.owner_references}
            for owner in owners:
                self._unlink(owner, uid)
            concerned |= self._waiting(owners)
        return concerned & self.nodes.keys()

    def is_gone(self, uid: str) -> bool:
        """Whether the object was seen to go; kept as long as somebody names it as an owner."""
        return uid in self._gone

    def dependents(self, uid: str) -> list[Node]:
        """The known objects that name `uid` as an owner."""
        return [self.nodes[other] for other in self._dependents.get(uid, ()) if other in self.nodes]

    def blockers(self, uid: str) -> list[Node]:
        """Dependents that must be gone before a foreground deletion of `uid` ends."""
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
        """The objects that name an owner of a kind. Costs a look at every object."""
        return {
            uid
            for uid, node in self.nodes.items()
            if any((o.group, o.kind) == (group, kind) for o in node.metadata.owner_references)
        }

    def is_deleting_dependents(self, uid: str) -> bool:
        node = self.nodes.get(uid)
        return node is not None and node.task is Task.DELETE_DEPENDENTS

    def _waiting(self, uids: Iterable[str]) -> set[str]:
        return {
            uid
            for uid in uids
            if uid in self.nodes
            and self.nodes[uid].task in (Task.DELETE_DEPENDENTS, Task.ORPHAN_DEPENDENTS)
        }

    def _unlink(self, owner: str, uid: str) -> None:
        known = self._dependents.get(owner)
        if known is not None:
            known.discard(uid)
            if not known:
                del self._dependents[owner]
                self._gone.discard(owner)
