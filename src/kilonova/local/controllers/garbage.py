"""Garbage collection: objects whose owners are gone go too, in the way the deletion asked for.

One reflector per resource keeps the graph; one queue holds the uids to look at, for a few
workers. An owner that the graph does not know is asked for by name before anything is deleted
for its sake: a reflector may lag behind another. Nothing is judged while a reflector is being
filled: to a graph that lacks the dependents of a resource, they look as if they were gone.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import structs

from kilonova.kube import Client, Conflict, KubeError, NotFound, Queue, Reflector, Resource
from kilonova.kube.logging import get_logger
from kilonova.kube.queue import QueueClosed
from kilonova.kube.verbs import Propagation
from kilonova.local.controllers.ownership import (
    FOREGROUND,
    ORPHAN,
    AnyObject,
    Graph,
    Node,
    OwnerReference,
    Task,
)
from kilonova.local.controllers.resources import served_resources

_IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
_WORKERS = 4
_RETRY_SECONDS = 1.0
_log = get_logger(__name__)


@dataclass(slots=True)
class _Followed:
    resource: Resource[AnyObject]
    reflector: Reflector[AnyObject]
    task: asyncio.Task[None]
    unsubscribe: Callable[[], None]


class GarbageCollector:
    """Follows every deletable resource. `definitions` tells when the set of resources changes."""

    name = "garbage collector"

    def __init__(self, client: Client, definitions: Reflector[Any]) -> None:
        self._client = client
        self._definitions = definitions
        self._graph = Graph()
        self._queue: Queue[str] = Queue()
        self._followed: dict[str, _Followed] = {}
        self._by_kind: dict[tuple[str, str], Resource[AnyObject]] = {}
        self._changed = asyncio.Event()
        self._filled = asyncio.Event()

    async def run(self) -> None:
        """Collect until cancelled."""
        unsubscribe = self._definitions.store.subscribe(lambda _old, _new: self._changed.set())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow_resources(group))
                for _ in range(_WORKERS):
                    group.create_task(self._work())
        finally:
            unsubscribe()

    async def _follow_resources(self, group: asyncio.TaskGroup) -> None:
        while True:
            self._changed.clear()
            try:
                wanted = await served_resources(self._client, AnyObject, "list", "watch", "delete")
            except KubeError as error:
                _log.warning("cannot tell what is served, will try again", error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self._follow_only(wanted, group)
            if await self._fills_before_a_change():
                await self._changed.wait()

    def _follow_only(self, wanted: list[Resource[AnyObject]], group: asyncio.TaskGroup) -> None:
        present = {
            resource.full_name: resource
            for resource in wanted
            if (resource.group, resource.plural) not in _IGNORED
        }
        self._by_kind = {(r.group, r.kind): r for r in present.values()}
        for name, followed in list(self._followed.items()):
            if name not in present or present[name].version != followed.resource.version:
                self._leave(name)
        for name, resource in present.items():
            if name not in self._followed:
                self._filled.clear()
                self._follow(name, resource, group)
                # Nobody could tell before whether their owners exist.
                self._look_at(self._graph.owned_by_kind(resource.group, resource.kind))

    async def _fills_before_a_change(self) -> bool:
        """Wait until every reflector is filled; one of a kind that goes meanwhile never is."""
        synced = asyncio.gather(
            *(followed.reflector.wait_synced() for followed in self._followed.values())
        )
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((synced, changed), return_when=asyncio.FIRST_COMPLETED)
            if synced.done():
                self._filled.set()
            return synced.done()
        finally:
            synced.cancel()
            changed.cancel()
            await asyncio.gather(synced, changed, return_exceptions=True)

    def _follow(self, name: str, resource: Resource[AnyObject], group: asyncio.TaskGroup) -> None:
        reflector = Reflector(self._client, resource)

        def seen(old: AnyObject | None, new: AnyObject | None) -> None:
            if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
                self._look_at(self._graph.forget(old.metadata.uid))
            if new is not None:
                self._look_at(self._graph.observe(name, new.metadata))

        unsubscribe = reflector.store.subscribe(seen)
        task = group.create_task(reflector.run(), name=reflector.name)
        self._followed[name] = _Followed(resource, reflector, task, unsubscribe)

    def _leave(self, name: str) -> None:
        """The resource is no longer served so. Its objects are gone if its definition is."""
        followed = self._followed.pop(name)
        followed.unsubscribe()
        followed.task.cancel()
        gone = ("", name) not in self._definitions.store
        for obj in followed.reflector.store.objects():
            self._look_at(self._graph.forget(obj.metadata.uid, gone=gone))

    def _look_at(self, uids: set[str]) -> None:
        for uid in sorted(uids):  # the same order in every run
            self._queue.add(uid)

    async def _work(self) -> None:
        while True:
            try:
                uid = await self._queue.get()
            except QueueClosed:
                return
            await self._filled.wait()
            try:
                await self._settle(uid)
                self._queue.forget(uid)
            except (NotFound, Conflict):
                self._queue.retry(uid)
            except KubeError as error:
                _log.warning("will try again", uid=uid, error=str(error))
                self._queue.retry(uid)
            finally:
                self._queue.done(uid)

    async def _settle(self, uid: str) -> None:
        node = self._graph.nodes.get(uid)
        if node is None or node.resource not in self._followed:
            return
        match node.task:
            case Task.NOTHING:
                return
            case Task.CHECK_OWNERS:
                await self._check_owners(node)
            case Task.ORPHAN_DEPENDENTS:
                await self._orphan_dependents(node)
            case Task.DELETE_DEPENDENTS:
                await self._delete_dependents(node)

    async def _check_owners(self, node: Node) -> None:
        solid: list[OwnerReference] = []
        waiting: list[OwnerReference] = []
        absent: list[OwnerReference] = []
        owners = node.metadata.owner_references
        for owner in owners:
            if not await self._exists(owner, node.metadata.namespace):
                absent.append(owner)
            elif self._graph.is_deleting_dependents(owner.uid):
                waiting.append(owner)
            else:
                solid.append(owner)
        if solid:
            if absent or waiting:
                await self._set_owners(node, solid)
            return
        dependents = self._graph.dependents(node.metadata.uid)
        if not waiting or not dependents:
            await self._delete(node, _propagation(node))
        elif _closes_circle(node, dependents):
            # Each would wait for the other: this one lets its owners go first.
            unblocked = [structs.replace(o, block_owner_deletion=False) for o in owners]
            await self._set_owners(node, unblocked)
        else:
            await self._delete(node, "Foreground")

    async def _orphan_dependents(self, node: Node) -> None:
        uid = node.metadata.uid
        for dependent in self._graph.dependents(uid):
            left = [owner for owner in dependent.metadata.owner_references if owner.uid != uid]
            await self._set_owners(dependent, left)
        await self._remove_finalizer(node, ORPHAN)

    async def _delete_dependents(self, node: Node) -> None:
        uid = node.metadata.uid
        for dependent in self._graph.dependents(uid):
            if not dependent.metadata.deletion_timestamp:
                self._queue.add(dependent.metadata.uid)
        if not self._graph.blockers(uid):
            await self._remove_finalizer(node, FOREGROUND)

    async def _exists(self, owner: OwnerReference, namespace: str) -> bool:
        """Whether an owner exists. An object is left alone where nobody can tell."""
        resource = self._by_kind.get((owner.group, owner.kind))
        if resource is not None and resource.namespaced and not namespace:
            return True
        if self._graph.is_gone(owner.uid):
            return False
        if resource is None or self._is_known(owner, namespace):
            return True
        try:
            found = await self._client.get(
                resource, owner.name, namespace if resource.namespaced else None
            )
        except NotFound:
            return False
        return found.metadata.uid == owner.uid

    def _is_known(self, owner: OwnerReference, namespace: str) -> bool:
        """Whether the graph has the very object: a uid in another namespace is nobody's owner."""
        node = self._graph.nodes.get(owner.uid)
        if node is None:
            return False
        resource = self._followed[node.resource].resource
        return (
            (resource.group, resource.kind) == (owner.group, owner.kind)
            and node.metadata.name == owner.name
            and node.metadata.namespace in ("", namespace)
        )

    async def _set_owners(self, node: Node, owners: list[OwnerReference]) -> None:
        kept = [msgspec.to_builtins(owner) for owner in owners]
        await self._patch(node, {"ownerReferences": kept or None})

    async def _remove_finalizer(self, node: Node, finalizer: str) -> None:
        left = [name for name in node.metadata.finalizers if name != finalizer]
        try:
            await self._patch(node, {"finalizers": left or None})
        except NotFound:
            return

    async def _patch(self, node: Node, metadata: dict[str, object]) -> None:
        """Only if it is still what the graph says: else the change that came will bring us back."""
        known = node.metadata
        await self._client.patch(
            self._followed[node.resource].resource,
            known.name,
            {"metadata": {"uid": known.uid, "resourceVersion": known.resource_version, **metadata}},
            known.namespace or None,
        )

    async def _delete(self, node: Node, propagation: Propagation) -> None:
        known = node.metadata
        try:
            await self._client.delete(
                self._followed[node.resource].resource,
                known.name,
                known.namespace or None,
                uid=known.uid,
                resource_version=known.resource_version,
                propagation=propagation,
            )
        except NotFound:
            return


def _closes_circle(node: Node, dependents: list[Node]) -> bool:
    """Whether the object blocks owners while one of its own dependents waits for it to go."""
    blocks = any(owner.block_owner_deletion for owner in node.metadata.owner_references)
    return blocks and any(each.task is Task.DELETE_DEPENDENTS for each in dependents)


def _propagation(node: Node) -> Propagation:
    """An object that already asks for a way of going keeps it."""
    if ORPHAN in node.metadata.finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in node.metadata.finalizers else "Background"
